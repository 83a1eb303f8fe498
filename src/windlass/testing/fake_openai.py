"""A fake of OpenAI's chat completions service."""

from collections.abc import Sequence
from typing import Any, Unpack

from windlass.testing.exchange import Exchange, Received, Refused
from windlass.testing.fake import FakeUpstream
from windlass.testing.openai_rules import check_chat_request
from windlass.testing.openai_wire import ChatExchange, openai_token
from windlass.testing.script import Refuse, Script
from windlass.testing.sse import Transport, TransportOptions

__all__ = ["FakeOpenAI"]

# The words that OpenAI has for an error of this status: its type, and its code.
_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header "
    "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
)


class FakeOpenAI(FakeUpstream):
    """OpenAI's wire from a script: `POST /v1/chat/completions` and `GET /v1/models`.

    `models`: the names it knows; every other is refused, and without them none is. `api_key`: the
    one it wants. The other options are in `TransportOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        port: int = 0,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key, port, Transport(**options))
        self._models = tuple(models)

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    def _headers(self) -> dict[str, str]:
        return {"x-request-id": f"req_{openai_token(32)}", "openai-version": "2020-10-01"}

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/v1/chat/completions" and received.method == "POST"

    def _accepted(self, received: Received) -> Exchange | Any:
        self._check_key(received.headers.get("authorization", ""))
        if not self._is_model_request(received):
            return self._listing(received)
        body = check_chat_request(received.body)
        self._check_model(body["model"])
        include_usage = (body.get("stream_options") or {"include_usage": False}).get(
            "include_usage"
        )
        return ChatExchange(
            model=body["model"],
            streams=bool(body.get("stream")),
            include_usage=include_usage is True,
            logprobs=body.get("logprobs") is True,
            top_logprobs=body.get("top_logprobs") or 0,
        )

    def _listing(self, received: Received) -> dict[str, Any]:
        names = self._models or ("gpt-fake",)
        match received.method, received.path.removeprefix("/v1/models"):
            case "GET", "":
                return {"object": "list", "data": [_model(name) for name in names]}
            case "GET", path if path.startswith("/"):
                self._check_model(path[1:])
                return _model(path[1:])
            case _:
                raise Refused(404, f"Invalid URL ({received.method} {received.path})")

    def _check_key(self, authorization: str) -> None:
        key = authorization.removeprefix("Bearer ").strip()
        if self.api_key is None or key == self.api_key:
            return
        shown = f"Incorrect API key provided: {key[:3]}{'*' * 8}."
        raise Refused(401, shown if key else _NO_KEY)

    def _check_model(self, model: str) -> None:
        if self._models and model not in self._models:
            text = f"The model `{model}` does not exist or you do not have access to it."
            raise Refused(404, text, code="model_not_found")

    def _error_body(self, error: Refuse | Refused) -> Any:
        kind, code = _ERRORS.get(
            error.status, ("server_error" if error.status >= 500 else "invalid_request_error", None)
        )
        return {
            "error": {
                "message": error.message,
                "type": kind,
                "param": error.param if isinstance(error, Refused) else None,
                "code": error.code or code,
            }
        }


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "windlass"}
