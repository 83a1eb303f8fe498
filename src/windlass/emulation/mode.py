"""A model in the mode that the caller chose."""

from windlass.emulation.auto import AutoModel, ModeMemory
from windlass.model import Model
from windlass.settings import FunctionCallingSettings, Mode

__all__ = ["Modes", "mode_of", "with_mode"]


class Modes:
    """One model in each of its modes. What is learned in one run is known in the next."""

    def __init__(self, model: Model, settings: FunctionCallingSettings | None = None) -> None:
        self._settings = settings or FunctionCallingSettings()
        self._made: dict[Mode, Model] = {"native": model}
        self._memory = ModeMemory()

    def of(self, mode: Mode | None = None) -> Model:
        """The model in that mode, or in the one that the settings name.

        `auto` is made anew for each run: it notes the mode that it uses.
        """
        mode = mode or self._settings.mode
        if mode == "auto":
            return AutoModel(
                self._made["native"],
                lambda: self.of("emulated"),
                self._settings,
                memory=self._memory,
            )
        if mode not in self._made:
            # Imported here: a model with function calling needs no table of any text format.
            from windlass.emulation.model import EmulatedModel

            self._made[mode] = EmulatedModel(self._made["native"], debug=self._settings.debug_logs)
        return self._made[mode]


def mode_of(model: Model) -> Mode:
    """The mode that the model's last request was made in."""
    return getattr(model, "mode", "native")


def with_mode(
    model: Model, mode: Mode | None = None, settings: FunctionCallingSettings | None = None
) -> Model:
    """The model in that mode; `Modes` keeps what is learned where the mode changes by the call."""
    return Modes(model, settings).of(mode)
