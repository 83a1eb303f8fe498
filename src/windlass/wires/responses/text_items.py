"""Messages and reasoning items of a response: opened, written piece by piece, and closed. Pure."""

from typing import Any

from msgspec import Raw

from windlass.events import TextDelta, ThoughtDelta
from windlass.jsontext import encode_json
from windlass.wires.encoding import json_text
from windlass.wires.fields import JsonObject, as_list, as_text
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.output import ResponseEvents


class OpenText:
    """A message or a reasoning item that is being written."""

    __slots__ = ("annotations", "id", "index", "logprobs", "phase", "pieces")

    def __init__(self, item: str, index: int, phase: str | None = None) -> None:
        self.id, self.index, self.phase = item, index, phase
        self.pieces: list[str] = []
        self.annotations: list[Any] = []
        self.logprobs: list[Any] = []

    def message_fields(self) -> JsonObject:
        phase = {"phase": self.phase} if self.phase else {}
        return {"id": self.id, "type": "message", "role": "assistant", **phase}


class TextItems:
    """Writes text and thoughts. At most one message or one reasoning item is open at a time.

    An item is opened by its first text that is not blank.
    """

    __slots__ = (
        "_blank_text",
        "_blank_thought",
        "_output",
        "_phase",
        "_reasoning",
        "_shows_encrypted",
        "before_text",
        "message",
    )

    def __init__(self, output: ResponseEvents, *, encrypted_reasoning: bool) -> None:
        self._output, self._shows_encrypted = output, encrypted_reasoning
        self.message: OpenText | None = None
        """The open message."""
        self.before_text = b""
        """The start of a text delta of the open message."""
        self._reasoning: OpenText | None = None
        self._blank_text = self._blank_thought = ""
        self._phase: str | None = None
        """The phase of the next message."""

    def close(self) -> None:
        """Ends the open item, because an item of another kind follows."""
        self.close_message("completed")
        self.close_reasoning()

    # Messages.

    def say(self, event: TextDelta) -> None:
        """Adds text to the open message, or opens one."""
        own: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if (phase := as_text(own.get("phase"))) is not None:
            self.close_message("completed")
            self._phase = phase
        if event.text:
            self._say_text(event)
        if (annotations := as_list(own.get("annotations"))) and self.message is not None:
            self._annotate(self.message, annotations)

    def _say_text(self, event: TextDelta) -> None:
        text = self._blank_text + event.text
        if (message := self.message) is None:
            if not text.strip():
                self._blank_text = text
                return
            self._blank_text = ""
            self.close_reasoning()
            message = self._open_message()
        message.pieces.append(text)
        logprobs = as_list((event.logprobs or {}).get("content")) or []
        message.logprobs += logprobs
        place = self._output.place(message.id, message.index)
        self._output.event(
            "response.output_text.delta",
            b'%s,"content_index":0,"logprobs":%s,"delta":%s'
            % (place, encode_json(logprobs), json_text(text)),
        )

    def _open_message(self) -> OpenText:
        output = self._output
        item, index = output.new_item("message")
        message = self.message = OpenText(item, index, self._phase)
        self._phase = None
        output.add(index, {**message.message_fields(), "status": "in_progress", "content": []})
        place = b'%s,"content_index":0,' % output.place(item, index)
        part = b'"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}'
        output.event("response.content_part.added", place + part)
        self.before_text = (
            b"event: response.output_text.delta\n"
            b'data: {"type":"response.output_text.delta",%s"logprobs":[],"delta":' % place
        )
        return message

    def _annotate(self, message: OpenText, annotations: list[Any]) -> None:
        place = self._output.place(message.id, message.index)
        for annotation in annotations:
            number = len(message.annotations)
            message.annotations.append(annotation)
            self._output.event(
                "response.output_text.annotation.added",
                b'%s,"content_index":0,"annotation_index":%d,"annotation":%s'
                % (place, number, encode_json(annotation)),
            )

    def close_message(self, status: str, *, dropped: bool = False) -> None:
        """Ends the open message, if any. A dropped message is not part of the response."""
        self._blank_text = ""
        message, self.message = self.message, None
        if message is None:
            return
        text = Raw(json_text("".join(message.pieces)))
        part = Raw(
            encode_json(
                {
                    "type": "output_text",
                    "annotations": message.annotations,
                    "logprobs": message.logprobs,
                    "text": text,
                }
            )
        )
        place = b'%s,"content_index":0,' % self._output.place(message.id, message.index)
        self._output.event(
            "response.output_text.done",
            b'%s"logprobs":%s,"text":%s' % (place, encode_json(message.logprobs), bytes(text)),
        )
        self._output.event("response.content_part.done", b'%s"part":%s' % (place, bytes(part)))
        item = {**message.message_fields(), "status": status, "content": [part]}
        self._output.finish(message.index, item, dropped=dropped)

    def refuse(self, refusal: str) -> None:
        """Writes a message that consists of a refusal."""
        output = self._output
        item, index = output.new_item("message")
        fields = OpenText(item, index).message_fields()
        output.add(index, {**fields, "status": "in_progress", "content": []})
        place = b'%s,"content_index":0,' % output.place(item, index)
        part = b'"part":{"type":"refusal","refusal":%s}'
        text = json_text(refusal)
        output.event("response.content_part.added", place + part % b'""')
        output.event("response.refusal.delta", place + b'"delta":%s' % text)
        output.event("response.refusal.done", place + b'"refusal":%s' % text)
        output.event("response.content_part.done", place + part % text)
        content = [{"type": "refusal", "refusal": refusal}]
        output.finish(index, {**fields, "status": "completed", "content": content})

    # Reasoning.

    def think(self, event: ThoughtDelta) -> None:
        """Adds a thought to the open reasoning item, or opens one."""
        if event.text:
            self._think_text(event.text)
        item: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if item:
            encrypted = as_text(item.get("encrypted_content"))
            self.close_reasoning(encrypted if self._shows_encrypted else None)

    def _think_text(self, text: str) -> None:
        output = self._output
        if (reasoning := self._reasoning) is None:
            text, self._blank_thought = self._blank_thought + text, ""
            if not text.strip():
                self._blank_thought = text
                return
            reasoning = self._open_reasoning()
            output.event(
                "response.reasoning_summary_part.added",
                self._summary_place(reasoning) + b'"part":{"type":"summary_text","text":""}',
            )
        reasoning.pieces.append(text)
        output.event(
            "response.reasoning_summary_text.delta",
            self._summary_place(reasoning) + b'"delta":' + json_text(text),
        )

    def _open_reasoning(self) -> OpenText:
        self.close_message("completed")
        item, index = self._output.new_item("reasoning")
        reasoning = self._reasoning = OpenText(item, index)
        begun: JsonObject = {"id": item, "type": "reasoning", "status": "in_progress"}
        self._output.add(index, {**begun, "summary": []})
        return reasoning

    def _summary_place(self, reasoning: OpenText) -> bytes:
        return self._output.place(reasoning.id, reasoning.index) + b',"summary_index":0,'

    def close_reasoning(self, encrypted: str | None = None, *, dropped: bool = False) -> None:
        """Ends the open reasoning item, if any. With `encrypted`, there is always one."""
        self._blank_thought = ""
        reasoning = self._reasoning
        if reasoning is None:
            if encrypted is None:
                return
            reasoning = self._open_reasoning()
        self._reasoning = None
        item: JsonObject = {"id": reasoning.id, "type": "reasoning", "status": "completed"}
        item["summary"] = self._summary(reasoning)
        if encrypted is not None:
            item["encrypted_content"] = encrypted
        self._output.finish(reasoning.index, item, dropped=dropped)

    def _summary(self, reasoning: OpenText) -> list[JsonObject]:
        """Ends the summary of a reasoning item, and returns its parts."""
        if not reasoning.pieces:
            return []
        place = self._summary_place(reasoning)
        text = Raw(json_text("".join(reasoning.pieces)))
        part = {"type": "summary_text", "text": text}
        done = "response.reasoning_summary_text.done"
        self._output.event(done, place + b'"text":' + bytes(text))
        done = "response.reasoning_summary_part.done"
        self._output.event(done, place + b'"part":' + encode_json(part))
        return [part]
