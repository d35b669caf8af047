"""The docs explain every code of a wait in the words that the programs use."""

from pathlib import Path

from muster.reasons import WAITS, Waiting

DOCS = Path(__file__).parents[2] / "docs" / "scheduling.md"


def test_the_table_of_the_docs_is_that_of_the_program() -> None:
    table = DOCS.read_text().partition("<!-- reasons: begin -->")[2].partition("<!-- reasons: end -->")[0]
    rows = [f"| `{code}` | {one.means} | {one.helps} |" for code, one in WAITS.items()]
    assert table.strip().splitlines()[2:] == rows
    assert set(WAITS) == set(Waiting)
