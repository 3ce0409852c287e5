"""The table of model families: which name stands for which fitter."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid
from margrave.extensions import add_entry, find_entry
from margrave.models._base.estimator import Estimator

if TYPE_CHECKING:
    from margrave.protocols import Fitter

HOMES = {
    "auto": ("margrave.models.auto", "Auto"),
    "compressed": ("margrave.models.compressed", "Compressed"),
    "conditional_pgm": ("margrave.models.pgm.fitter", "ConditionalPGM"),
    "diffusion": ("margrave.models.diffusion.fitter", "Diffusion"),
    "gan": ("margrave.models.adversarial.fitters", "GradientGan"),
    "gated": ("margrave.models.gated.fitter", "Gated"),
    "genetic": ("margrave.models.rowwise.genetic", "Genetic"),
    "gum": ("margrave.models.rowwise.gum", "GUM"),
    "independent": ("margrave.models.independent", "Independent"),
    "informed": ("margrave.models.informed", "Informed"),
    "merf": ("margrave.models.networks.merf", "Merf"),
    "mixture": ("margrave.models.mixture.fitter", "Mixture"),
    "network": ("margrave.models.networks.network", "Network"),
    "particles": ("margrave.models.particles.fitter", "Particles"),
    "pgm": ("margrave.models.pgm.fitter", "PGM"),
    "pmw": ("margrave.models.pgm.multiplicative_weights", "PMW"),
    "public_auto": ("margrave.models.gated.public_auto", "PublicAuto"),
    "public_network": ("margrave.models.networks.network", "PublicNetwork"),
    "public_weights": ("margrave.models.public_weights", "PublicWeights"),
    "relaxed": ("margrave.models.relaxed", "Relaxed"),
    "relaxed_points": ("margrave.models.relaxed", "pointwise"),
    "residual": ("margrave.models.rowwise.residual", "Residual"),
    "slice_fdiv": ("margrave.models.sliced.fitter", "SliceFDiv"),
    "slice_wass": ("margrave.models.sliced.fitter", "SliceWass"),
    "voted_gan": ("margrave.models.adversarial.fitters", "VotedGan"),
}
"""The module and the class of each fitter, imported when it is asked for."""

FITTERS = tuple(sorted(HOMES))
"""Every name of the package's own that `resolve` knows."""


def resolve(name: str) -> Fitter:
    """The estimator of a name, with its default settings.

    Raises:
        InputError: No estimator has this name.

    Example:
        >>> resolve("pgm").name
        'pgm'
    """
    home = find_entry(HOMES, name)
    if home is None:
        raise InputError(
            invalid("model", f"one of {sorted(HOMES)}", "Or pass an estimator object.", got=name)
        )
    module, kind = home
    fitter: Fitter = vars(import_module(module))[kind]()
    return fitter


def register_estimator(name: str, module: str, kind: str) -> None:
    """Add an estimator, so that runs find it by name and saved releases load again.

    Args:
        name: Its `name`.
        module: Where it is, imported when it is asked for.
        kind: The class, or a function, that makes one without arguments.

    Raises:
        InputError: The name is taken by another estimator.
    """
    add_entry(HOMES, name, (module, kind), "the estimator")


def import_estimator(place: str) -> Fitter:
    """The estimator at "package.module:Class", with its default settings.

    It imports the module, so the place may come from whoever runs the program, never from a release file.

    Raises:
        InputError: There is no such module or class, or it makes no estimator.

    Example:
        >>> import_estimator("margrave.models.pgm.fitter:PGM").name
        'pgm'
    """
    module, _, kind = place.partition(":")
    try:
        made = vars(import_module(module))[kind]() if module and kind else None
    except (ImportError, KeyError, TypeError) as error:
        remedy = f"Is it importable from here? {type(error).__name__} while importing."
        raise InputError(
            invalid("estimator", "a place such as package.module:Class", remedy, got=place)
        ) from error
    if not isinstance(made, Estimator):
        remedy = "Derive it from margrave.models.Estimator; see docs/extending.md."
        raise InputError(invalid("estimator", "the place of an estimator", remedy, got=place))
    return made
