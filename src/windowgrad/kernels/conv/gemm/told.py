"""What kernels of conv/gemm are told of a layout: the numbers at the head of one array."""

from __future__ import annotations

from typing import NamedTuple

PACKED, BOXED, IN_PLACE = range(3)


class Told(NamedTuple):
    """What kernels are told. Sizes are in cells; what ends with `_at` is the place of a list in the array itself."""

    rows: int
    """Of a group; `tiles` of `unit` rows are shared."""
    tiles: int
    channels: int
    taps: int
    plane: int
    out_plane: int
    image: int
    """How far images are apart in x; `out_image`, in y."""
    out_image: int
    origin: int
    """Where pixel 0 of y stands."""
    pixels: int
    """Of a run, with the lanes that are not used. Panels do not span runs: one has all images, or each has one."""
    place: int
    some_channels: int
    """How much is taken at a time: channels, taps and panels."""
    some_taps: int
    some_panels: int
    boxes: int
    """For BOXED: how many there are, how long each is, how many cells it has before the first pixel of a block, how many
    cells all images have in a box."""
    box: int
    lead: int
    all_cells: int
    factor_group: int
    """Row r of tile t of group g begins at g · factor_group + t · factor_tile + r · factor_row of the weight, and a block of k
    there with the place of its first channel and tap. Where the weight is packed, `factor_packed` times the first tile that is
    packed is less."""
    factor_tile: int
    factor_row: int
    factor_channel: int
    factor_tap: int
    factor_packed: int
    in_rank: int
    in_at: int
    """grid, size, step, and the taps or the phases of boxes: see `InAxes`."""
    out_rank: int
    out_at: int
    """grid, the part of it that is real, move: see `OutAxes`."""
    places_at: int
    """Where the number and the cells of each k stand, from the first of a row and of the panel on (of turned tiles, the other
    way around): `places` of these for the place, then those of PACKED."""
    places: int
    by_panel: int
    """Whether all tiles of a panel are computed before the next panel, not all panels of a tile before the next tile."""
    unit: int
    """Rows with which the share of a thread may begin: ROWS, or a vector of them if tiles are turned."""
    height: int
    """Rows that are packed together: ROWS, or a panel of them if tiles are turned."""
    runs: int
    """How many there are, how many panels each has, and how far their first pixels are apart."""
    run_panels: int
    run_pitch: int


HEAD = 2
"""What kernels are told begins with the cells and integers of scratch memory that a thread needs, then where the numbers of
`Told` begin for each grid of pixels."""
