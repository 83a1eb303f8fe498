"""A model in the mode that the caller chose."""

from windlass.emulation.auto import AutoModel, ModeMemory
from windlass.emulation.profile_warming import warmed
from windlass.model import Model, ModelRequest
from windlass.settings import FunctionCallingSettings, Mode

__all__ = ["Modes", "load_emulation", "mode_of", "with_mode"]


def load_emulation() -> None:
    """Loads what emulation needs, so that the first request in that mode need not wait for it."""
    from windlass.emulation.parser import Parser
    from windlass.emulation.profile import emulated_by_profile

    assert emulated_by_profile
    Parser(())  # the tables of all formats


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
        if mode == "auto" and self._is_emulated_at_once:
            return self.of("emulated")
        if mode == "auto":
            return AutoModel(
                self._made["native"],
                lambda: self.of("emulated"),
                self._settings,
                memory=self._memory,
            )
        if mode not in self._made:
            # Imported here: a model with function calling needs no table of any text format.
            from windlass.emulation.profile import emulated_by_profile

            self._made[mode] = emulated_by_profile(
                self._made["native"], debug=self._settings.debug_logs
            )
        return self._made[mode]

    async def warm(self, request: ModelRequest) -> None:
        """Has the model read ahead what requests with these tools begin with, if it can.

        Raises `ModelError` as a request would.
        """
        await warmed(self.of(), request)

    @property
    def _is_emulated_at_once(self) -> bool:
        """A model may say of itself that it cannot call functions: then nothing is tried."""
        has_calling = getattr(self._made["native"], "function_calling", True)
        return not has_calling and self._settings.fallback_on_failure


def mode_of(model: Model) -> Mode:
    """The mode that the model's last request was made in."""
    return getattr(model, "mode", "native")


def with_mode(
    model: Model, mode: Mode | None = None, settings: FunctionCallingSettings | None = None
) -> Model:
    """The model in that mode; `Modes` keeps what is learned where the mode changes by the call."""
    return Modes(model, settings).of(mode)
