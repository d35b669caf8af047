// Walks through the dashboard of a real cluster as a user would. Prints one JSON line for each thing that was seen.
// node walk.mjs URL TOKEN CHROMIUM FOLDER
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, token, executablePath, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const say = (step, found = true) => console.log(JSON.stringify({ step, found }));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const told = async (word) => {
  say("waits", word);
  await lines.next();
};

const browser = await chromium.launch({ executablePath, args: flags });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
page.setDefaultTimeout(60000);
try {
  await page.goto(url);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  say("a wrong token is refused", await page.getByRole("alert").textContent());
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  say("signed in");

  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.getByRole("link", { name: "seen", exact: true }).click();
  await page.getByText("Running", { exact: false }).first().waitFor();
  say("a running job", await page.locator("h1").textContent());
  await page.getByText("tick 1", { exact: false }).first().waitFor();
  say("its log is followed");

  await told("lose");
  await page.getByText("NodeLost").first().waitFor();
  await page.getByText("attempt 2").first().waitFor();
  say("a lost node and the second attempt, without a reload");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Yes, cancel" }).click();
  await page.locator(".top .state", { hasText: "Cancelled" }).waitFor();
  say("cancelled after a question");

  await page.getByRole("link", { name: /^Nodes/ }).click();
  await page.getByRole("link", { name: "node-0", exact: true }).click();
  await page.getByRole("button", { name: "Cordon" }).click();
  await page.getByRole("button", { name: "Yes, cordon" }).click();
  await page.locator(".top .state", { hasText: "Cordoned" }).waitFor();
  say("a node is cordoned");

  await told("cut");
  await page.getByText("not connected").waitFor();
  say("told that nobody answers");
  await told("return");
  await page.locator(".line.live").waitFor();
  say("live again by itself");

  for (const name of ["", "fabric", "jobs?phase=all", "jobs/default/seen", "queues", "nodes", "nodes/node-0", "incidents", "goodput", "whatif", "events", "audit"]) {
    for (const [width, theme] of [[1440, "light"], [390, "dark"]]) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate((value) => { document.documentElement.dataset.theme = value; }, theme);
      await page.goto(`${url}#/${name}`);
      await page.locator("h1").waitFor();
      await page.waitForTimeout(400);
      await page.screenshot({ path: `${folder}/${name.replace(/\W+/g, "-") || "overview"}-${width}-${theme}.png` });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      await page.evaluate(axe);
      const faults = await page.evaluate(async () => (await globalThis.axe.run()).violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`));
      say("page", { name, width, theme, wide, faults });
    }
  }
  say("errors", errors);
} catch (error) {
  await page.screenshot({ path: `${folder}/failed.png` });
  say("failed", String(error).slice(0, 600));
} finally {
  await browser.close();
}
process.exit(0);
