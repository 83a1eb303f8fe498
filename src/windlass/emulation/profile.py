"""Profiles: by which method a kind of model is best brought to call functions.

A model names its profile (`emulation_profile`); one that names none has the default. Which method
is best is a matter of measurement (`bench/local.py`), and differs from size to size.
"""

from msgspec import Struct

from windlass.emulation.model import EmulatedModel
from windlass.emulation.parser import DEFAULT_FORMAT, Parser
from windlass.emulation.profile_examples import GreetedModel
from windlass.emulation.profile_repeats import parser_without_repeats
from windlass.emulation.profile_steps import StepsModel
from windlass.errors import ConfigError
from windlass.model import Model

__all__ = ["PROFILES", "Profile", "emulated_by_profile", "profile_of"]


class Profile(Struct, frozen=True):
    """How calls are asked for and read."""

    format: str = DEFAULT_FORMAT
    """How the model is asked to write its calls."""
    steps: bool = False
    """Whether a tool is chosen first and its arguments written then, each held to a schema."""
    repeats: bool = True
    """Whether the same call, twice in one turn, is two calls."""
    greeted: bool = False
    """Whether a greeting that was answered in words comes before the conversation."""


PROFILES: dict[str, Profile] = {
    "default": Profile(),
    # Marks such as <tool_call> are single tokens, which these weights were never taught to write.
    "small": Profile(format="json-fence", repeats=False, greeted=True),
    "tiny": Profile(steps=True),
}
"""`small`: some 1 to 8 billion parameters. `tiny`: less, and no format is followed unforced."""


def profile_of(model: Model) -> Profile:
    """Raises `ConfigError` if the model names a profile that there is not."""
    name: object = getattr(model, "emulation_profile", "default")
    if not isinstance(name, str) or name not in PROFILES:
        known = ", ".join(PROFILES)
        raise ConfigError(f"{model.name} names the profile {name!r}; there are: {known}")
    return PROFILES[name]


def emulated_by_profile(model: Model, *, debug: bool = False) -> Model:
    """The model with emulated function calling, by its own profile."""
    profile = profile_of(model)
    parser = Parser if profile.repeats else parser_without_repeats
    kind = GreetedModel if profile.greeted else EmulatedModel
    emulated = kind(model, format=profile.format, parser=parser, debug=debug)
    return StepsModel(model, emulated) if profile.steps else emulated
