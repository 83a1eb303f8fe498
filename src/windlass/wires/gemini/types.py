"""The JSON of generateContent: requests, answers, chunks and errors.

A class `NameJson` is called `Name` in the OpenAPI document.
"""

# ruff: noqa: N815 - the names are those of the wire

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypeAliasType

from windlass.wires.fields import AnyWholeNumber, Count, Field, Json, NonEmptyText

_Limit: TypeAlias = Annotated[AnyWholeNumber, Field(ge=1)]


class GeminiBlob(Json):
    mimeType: str
    data: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


class GeminiFile(Json):
    mimeType: NotRequired[str]
    fileUri: NonEmptyText


class GeminiCall(Json):
    id: NotRequired[str]
    """Clients may omit it; the gateway then reads it from the signature."""
    name: NonEmptyText
    args: NotRequired[dict[str, Any]]


class GeminiResult(Json):
    id: NotRequired[str]
    """Without it, the result belongs to the first open call of its name."""
    name: NonEmptyText
    response: dict[str, Any]


class GeminiTextPart(Json):
    text: str
    thought: NotRequired[bool]
    thoughtSignature: NotRequired[str]
    """Opaque; the client returns it unchanged."""


class GeminiBlobPart(Json):
    inlineData: GeminiBlob


class GeminiFilePart(Json):
    fileData: GeminiFile


class GeminiCallPart(Json):
    functionCall: GeminiCall
    thoughtSignature: NotRequired[str]
    """Opaque; the client returns it unchanged."""


class GeminiResultPart(Json):
    functionResponse: GeminiResult


GeminiPart = TypeAliasType(
    "GeminiPart",
    GeminiTextPart | GeminiBlobPart | GeminiFilePart | GeminiCallPart | GeminiResultPart,
)
"""Parts of other kinds are passed to models of Google."""


class GeminiContent(Json):
    role: NotRequired[Literal["user", "model"]]
    parts: Annotated[list[GeminiPart], Field(min_length=1)]


class GeminiInstruction(Json):
    parts: list[GeminiTextPart]


class GeminiFunction(Json):
    name: Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]*$", max_length=64)]
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    """A schema in Google's form."""
    parametersJsonSchema: NotRequired[dict[str, Any] | None]
    """A JSON Schema of type `object`."""


class GeminiTool(Json):
    functionDeclarations: NotRequired[list[GeminiFunction]]
    """Client tools. Tools that Google runs, such as `googleSearch`, are passed to its models."""


class FunctionCallingConfig(Json):
    mode: NotRequired[Literal["AUTO", "ANY", "NONE", "VALIDATED"]]
    allowedFunctionNames: NotRequired[list[str]]


class ToolConfig(Json):
    functionCallingConfig: NotRequired[FunctionCallingConfig]


class ThinkingConfig(Json):
    includeThoughts: NotRequired[bool]
    thinkingBudget: NotRequired[AnyWholeNumber]
    thinkingLevel: NotRequired[str]


class GenerationConfig(Json):
    """Other fields are passed to models of Google."""

    temperature: NotRequired[float | None]
    topP: NotRequired[float | None]
    topK: NotRequired[AnyWholeNumber | None]
    maxOutputTokens: NotRequired[_Limit | None]
    stopSequences: NotRequired[list[str] | None]
    seed: NotRequired[AnyWholeNumber | None]
    presencePenalty: NotRequired[float | None]
    frequencyPenalty: NotRequired[float | None]
    responseLogprobs: NotRequired[bool | None]
    logprobs: NotRequired[Annotated[AnyWholeNumber, Field(ge=0)] | None]
    candidateCount: NotRequired[Literal[1] | None]
    responseMimeType: NotRequired[str | None]
    responseSchema: NotRequired[dict[str, Any] | None]
    responseJsonSchema: NotRequired[dict[str, Any] | None]
    thinkingConfig: NotRequired[ThinkingConfig | None]


class GenerateContentRequest(Json):
    """A request of Google's generateContent. Other fields are passed to models of Google."""

    contents: Annotated[list[GeminiContent], Field(min_length=1)]
    systemInstruction: NotRequired[GeminiInstruction | None]
    tools: NotRequired[list[GeminiTool] | None]
    toolConfig: NotRequired[ToolConfig | None]
    generationConfig: NotRequired[GenerationConfig | None]


class CountedContents(Json):
    contents: Annotated[list[GeminiContent], Field(min_length=1)]


class CountedRequest(Json):
    generateContentRequest: GenerateContentRequest


CountTokensRequest = TypeAliasType("CountTokensRequest", CountedContents | CountedRequest)


class CountTokensResponse(Json):
    totalTokens: Count
    """An estimate."""


class AnswerContent(Json):
    role: Literal["model"]
    parts: Annotated[list[GeminiPart], Field(min_length=1)]


class Candidate(Json):
    content: AnswerContent
    finishReason: NotRequired[str]
    index: Literal[0]
    logprobsResult: NotRequired[dict[str, Any]]


class GeminiUsage(Json):
    """The sum of all rounds."""

    promptTokenCount: Count
    candidatesTokenCount: Count
    totalTokenCount: Count
    cachedContentTokenCount: NotRequired[Count]
    thoughtsTokenCount: NotRequired[Count]


class GenerateContentResponse(Json):
    """An answer, or a chunk of a stream."""

    candidates: list[Candidate]
    usageMetadata: NotRequired[GeminiUsage]
    modelVersion: str
    responseId: str
    """The id of the run."""


class GeminiModelJson(Json):
    name: str
    """`models/NAME`"""
    baseModelId: str
    version: str
    displayName: str
    description: str
    supportedGenerationMethods: list[str]


class GeminiModelListJson(Json):
    models: list[GeminiModelJson]


class GeminiErrorFields(Json):
    code: int
    message: str
    status: str
    details: list[dict[str, Any]]


class GeminiErrorJson(Json):
    """The body of every error, and the end of a stream that fails."""

    error: GeminiErrorFields
