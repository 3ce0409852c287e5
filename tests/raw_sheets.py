"""Excel files written byte by byte, with one cell that no program should write, or with its sound twin."""

from __future__ import annotations

import zipfile
from pathlib import Path

__all__ = ["ODD_CELLS", "SHEET", "make_shared_cell", "write_odd_sheet", "write_parts"]

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
XML = b'<?xml version="1.0" encoding="UTF-8"?>'
SHEET = f'<worksheet xmlns="{MAIN}">'.encode()
LIST = f'<sst xmlns="{MAIN}">'.encode()


def write_parts(path: Path, sheets: list[bytes], texts: bytes | None) -> Path:
    """A file of sheets, given as what stands in their parts, and of the list of texts; None for no list."""
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="{KIND}.worksheet+xml"/>'
        for k in range(len(sheets))
    )
    if texts is not None:
        parts += f'<Override PartName="/xl/sharedStrings.xml" ContentType="{KIND}.sharedStrings+xml"/>'
    links = [
        f'<Relationship Id="r{k}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{k}.xml"/>'
        for k in range(len(sheets))
    ]
    names = [f'<sheet name="s{k}" sheetId="{k + 1}" r:id="r{k}"/>' for k in range(len(sheets))]
    content = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>{parts}</Types>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{"".join(names)}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{"".join(links)}'
        "</Relationships>",
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in content.items():
            file.writestr(name, XML + text.encode())
        for k, sheet in enumerate(sheets):
            file.writestr(f"xl/worksheets/sheet{k}.xml", sheet)
        if texts is not None:
            file.writestr("xl/sharedStrings.xml", texts)
    return path


def make_shared_cell(text: bytes, first: bool = False) -> tuple[bytes, bytes]:
    """A sheet of the columns a and b, and the list of its texts; the last row has a text of one's own choice.

    With `first` that text is the first of the list, before the names of the columns.
    """
    texts = [text, b"a", b"b", b"x"] if first else [b"a", b"b", b"x", text]
    a = texts.index(b"a")
    rows = [f'<row r="1"><c t="s"><v>{a}</v></c><c t="s"><v>{a + 1}</v></c></row>']
    rows += [f'<row r="{k}"><c t="s"><v>{a + 2}</v></c><c><v>{k % 5}</v></c></row>' for k in range(2, 302)]
    last = f'<row r="302"><c t="s"><v>{texts.index(text)}</v></c><c><v>1</v></c></row>'
    listed = b"".join(b"<si><t>" + entry + b"</t></si>" for entry in texts)
    sheet = SHEET + b"<sheetData>" + "".join([*rows, last]).encode() + b"</sheetData></worksheet>"
    return XML + sheet, XML + LIST + listed + b"</sst>"


def _make_inline(first: bytes, last: bytes, more: bytes = b"") -> bytes:
    """A sheet of the columns a and b with 300 rows, of which the first and the last are given as cells."""
    names = b'<c t="inlineStr"><is><t>a</t></is></c><c t="inlineStr"><is><t>b</t></is></c>'
    usual = [b'<c t="inlineStr"><is><t>x</t></is></c><c><v>%d</v></c>' % (k % 5) for k in range(298)]
    rows = b"".join(b"<row>" + cells + b"</row>" for cells in (names, first, *usual, last))
    return XML + SHEET + more + b"<sheetData>" + rows + b"</sheetData></worksheet>"


SOUND = b'<c t="inlineStr"><is><t>x</t></is></c><c><v>1</v></c>'
BAD_TEXT = b'<c t="inlineStr"><is><t>x\x0b</t></is></c><c><v>1</v></c>'
ODD_CELLS = {
    "a control character": lambda odd: make_shared_cell(b"y\x0b" if odd else b"y"),
    "bytes that are no UTF-8": lambda odd: make_shared_cell(b"caf\xe9" if odd else b"y"),
    "half a pair": lambda odd: make_shared_cell(b"&#xD83D;" if odd else b"y"),
    "a bare ampersand": lambda odd: make_shared_cell(b"y & z" if odd else b"y"),
    "a control character before the names": lambda odd: make_shared_cell(b"y\x0b" if odd else b"y", True),
    "an open tag before the names": lambda odd: make_shared_cell(b"y<b" if odd else b"y", True),
    "bytes that are no UTF-8 before the names": lambda odd: make_shared_cell(b"\xe9" if odd else b"y", True),
    "a text within a cell": lambda odd: (_make_inline(SOUND, BAD_TEXT if odd else SOUND), None),
    "a number that is none in the second row": lambda odd: (
        _make_inline(b"<c><v>1x</v></c>" if odd else SOUND, SOUND, b'<dimension ref="A1:B301"/>'),
        None,
    ),
    "a text that is not in the list": lambda odd: (
        _make_inline(b'<c t="s"><v>7</v></c>' if odd else SOUND, SOUND, b'<dimension ref="A1:B301"/>'),
        XML + LIST + b"</sst>",
    ),
    "a cell of the second row": lambda odd: (_make_inline(BAD_TEXT if odd else SOUND, SOUND), None),
}
"""What one cell may hold: the sheet and its list of texts, with that cell and without it."""


def write_odd_sheet(path: Path, name: str, odd: bool) -> Path:
    """A file with one of ODD_CELLS, or with its sound twin, in the first of two sheets."""
    sheet, texts = ODD_CELLS[name](odd)
    return write_parts(path, [sheet, _make_inline(SOUND, SOUND)], texts)
