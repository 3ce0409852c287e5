"""The commands `margrave images tabulate` and `margrave images draw`: pictures to a table and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from margrave.errors import InputError, invalid

images_app = typer.Typer(
    help="Grey pictures as a table, and pictures of synthetic rows. Nothing is spent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@images_app.command()
def tabulate(
    folder: Annotated[Path, typer.Argument(help="Folder with one folder of .png files for each class.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV, TSV, Parquet or Arrow file to write.")],
    schema: Annotated[Path, typer.Option(help="Where the schema of these pictures goes.")],
    height: Annotated[
        int | None, typer.Option(min=1, help="Pixels down, averaged to; those of the pictures by default.")
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Pixels across, likewise.")] = None,
    levels: Annotated[int, typer.Option(min=2, max=256, help="Grey levels from black to white.")] = 4,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write pictures as a table, with its schema. The table is as private as they are; nothing is spent."""
    from margrave.files import check_outputs, suffix_of, write_table
    from margrave.images import Pixels, read_images

    suffix_of(out)
    check_outputs({"out": out, "schema": schema}, {"folder": folder}, new=not force)
    images, labels, classes = read_images(folder)
    high, wide = images.shape[1:]
    pixels = Pixels(height or high, width or wide, levels, classes)
    table = pixels.tabulate(images, labels)
    pixels.schema.save(schema)
    write_table(table, out)
    if not quiet:
        typer.echo(f"{out}: a row for each picture. PRIVATE, as the pictures are")
        shape = f"{pixels.height} x {pixels.width} pixels, {levels} levels, {len(classes)} classes"
        typer.echo(f"{schema}: what is public about it, {shape}")
        typer.echo(f"next: margrave synthesize {out} --schema {schema}")


@images_app.command()
def draw(
    rows: Annotated[Path, typer.Argument(help="Synthetic rows of pictures.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder; a folder in it for each class.")],
    schema: Annotated[Path, typer.Option(help="The schema that `margrave images tabulate` wrote.")],
    sheet: Annotated[Path | None, typer.Option(help="Also write a contact sheet here, a PNG file.")] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write PNG files of synthetic rows. Spends nothing."""
    from margrave.engines.files import DEFAULT_TEXT_FORMAT
    from margrave.engines.frames import read_table
    from margrave.files import check_outputs
    from margrave.images import draw_sheet, write_images

    check_outputs({"sheet": sheet}, {"rows": rows, "schema": schema}, new=not force)
    pixels = _find_pixels(schema)
    table: Any = read_table(rows, ("",), DEFAULT_TEXT_FORMAT.with_separator(rows))[0]
    images, labels = pixels.picture(table)
    write_images(out, images, labels)
    if sheet is not None:
        draw_sheet(sheet, images, labels)
    if not quiet:
        typer.echo(f"{out}: {len(images):,} pictures; nothing was spent")
        if sheet is not None:
            typer.echo(f"{sheet}: the contact sheet")


def _find_pixels(path: Path) -> Any:
    """The pixels whose schema this file holds.

    Raises:
        InputError: It is the schema of another table.
    """
    from margrave.images import Pixels
    from margrave.schema.schema import Schema

    found = Pixels.find(Schema.load(path))
    if found is None:
        remedy = "Give the file that `margrave images tabulate` wrote."
        raise InputError(invalid("schema", "one of pictures", remedy, got=str(path)))
    return found
