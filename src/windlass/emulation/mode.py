"""A model in the mode that the caller chose."""

from windlass.emulation.auto import AutoModel
from windlass.model import Model
from windlass.settings import FunctionCallingSettings, Mode

__all__ = ["Modes", "with_mode"]


class Modes:
    """One model in each of its modes. What is learned in one call is known in the next."""

    def __init__(self, model: Model, settings: FunctionCallingSettings | None = None) -> None:
        self._settings = settings or FunctionCallingSettings()
        self._made: dict[Mode, Model] = {"native": model}

    def of(self, mode: Mode | None = None) -> Model:
        """The model in that mode, or in the one that the settings name."""
        mode = mode or self._settings.mode
        if mode not in self._made:
            self._made[mode] = self._make(mode)
        return self._made[mode]

    def _make(self, mode: Mode) -> Model:
        native = self._made["native"]
        if mode == "auto":
            return AutoModel(native, lambda: self.of("emulated"), self._settings)
        # Imported here: a model with function calling needs no table of anybody's text format.
        from windlass.emulation.model import EmulatedModel

        return EmulatedModel(native, debug=self._settings.debug_logs)


def with_mode(
    model: Model, mode: Mode | None = None, settings: FunctionCallingSettings | None = None
) -> Model:
    """The model in that mode; `Modes` keeps what is learned where the mode changes by the call."""
    return Modes(model, settings).of(mode)
