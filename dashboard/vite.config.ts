import { defineConfig } from "vite";

// Relative addresses, so that it works behind any path prefix; the build goes where the API serves it from.
export default defineConfig({
  base: "./",
  build: { outDir: "../api/dashboard", emptyOutDir: true, assetsInlineLimit: 0, target: "es2022" },
  server: { proxy: { "/api": process.env.MUSTER_SERVER ?? "http://127.0.0.1:7070" } },
});
