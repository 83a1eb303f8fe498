"""OAuth for MCP servers: a login for each user, refreshed and stored encrypted.

Each user of a server has a separate record, encrypted with a separate key, so that the credentials
of one user are never used for another. The SDK implements the protocol.
"""

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from msgspec import Struct
from pydantic import AnyUrl

from windlass.errors import ConfigError

log = logging.getLogger("windlass.mcp")

FOLDER = "mcp-logins"
KEY_FILE = "mcp-logins.key"
KEY_VARIABLE = "WINDLASS_MCP_KEY"
"""The environment variable with the secret that encrypts logins, instead of a file."""
NONCE_BYTES = 12
EARLY_SECONDS = 30.0
"""How long before its end a token is refreshed."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE_SECONDS = 5.0
"""The pause between two checks of a device login, unless the server sets one."""


class LoginRequired(OAuthFlowError):
    """There are no credentials, or they cannot be refreshed."""


class Login(Struct, kw_only=True):
    """The stored login of one user of one server: JSON texts of the SDK's types."""

    tokens: str | None = None
    expires: float | None = None
    """When the access token ends, in Unix seconds."""
    client: str | None = None
    metadata: str | None = None


class LoginStore:
    """The login of one user of one server, in an encrypted file. It implements `TokenStorage`."""

    def __init__(
        self,
        directory: Path,
        server: str,
        owner: str = "",
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
    ) -> None:
        """`owner` is the name of a gateway key, or empty. A `client_id` needs no registration."""
        name = hashlib.sha256(msgspec.json.encode((server, owner))).hexdigest()[:40]
        self._directory = directory
        self._file = directory / FOLDER / name
        self._scope = msgspec.json.encode(("windlass mcp login", server, owner))
        self._client_id, self._client_secret = client_id, client_secret

    def exists(self) -> bool:
        """Whether there is a login with tokens."""
        return self.read().tokens is not None

    def read(self) -> Login:
        """The login; an empty one if there is none. Raises `ConfigError` if it is unreadable."""
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return Login()
        except OSError as error:
            raise ConfigError(f"cannot read {self._file}: {error.strerror}") from None
        try:
            plain = self._cipher().decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._scope)
            return msgspec.json.decode(plain, type=Login)
        except (InvalidTag, ValueError, msgspec.DecodeError):
            raise ConfigError(
                f"{self._file} cannot be decrypted: it belongs to another key or user; log in again"
            ) from None

    def write(self, login: Login) -> None:
        """Stores the login for its owner alone. Raises `ConfigError`."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher().encrypt(nonce, msgspec.json.encode(login), self._scope)
        _write_private(self._file, nonce + sealed)

    def forget(self) -> None:
        """Deletes the login."""
        self._file.unlink(missing_ok=True)

    async def get_tokens(self) -> OAuthToken | None:
        stored = self.read().tokens
        return None if stored is None else OAuthToken.model_validate_json(stored)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        login = self.read()
        login.tokens = tokens.model_dump_json()
        login.expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.write(login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._client_id is not None:
            secret = self._client_secret
            return OAuthClientInformationFull(
                client_id=self._client_id,
                client_secret=secret,
                token_endpoint_auth_method="client_secret_post" if secret else "none",
            )
        stored = self.read().client
        return None if stored is None else OAuthClientInformationFull.model_validate_json(stored)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        login = self.read()
        login.client = client_info.model_dump_json()
        self.write(login)

    def _cipher(self) -> AESGCM:
        """A cipher whose key belongs to this user of this server."""
        return AESGCM(derived_key(self._directory, self._scope))


def derived_key(directory: Path, purpose: bytes) -> bytes:
    """A key that is the same in each process with this directory. Raises `ConfigError`."""
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose)
    return derived.derive(_secret(directory))


def _secret(directory: Path) -> bytes:
    """The secret that all keys are derived from: from the environment, or from a file."""
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return given.encode()
    file = directory / KEY_FILE
    try:
        return file.read_bytes()
    except FileNotFoundError:
        _write_private(file, os.urandom(32), exclusive=True)
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None


def _write_private(file: Path, data: bytes, *, exclusive: bool = False) -> None:
    """Writes atomically, readable by its owner alone. `exclusive` keeps a file that exists."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
            temporary.write(data)
            temporary.close()
            made = Path(temporary.name)
            try:
                if exclusive:
                    os.link(made, file)
                else:
                    made.replace(file)
            except FileExistsError:
                pass
            finally:
                made.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from None


class StoredLogin(OAuthClientProvider):
    """Uses and refreshes a stored login. Raises `LoginRequired` if a person has to log in."""

    def __init__(self, url: str, store: LoginStore, metadata: OAuthClientMetadata) -> None:
        super().__init__(url, metadata, store)
        self._store = store
        self._refreshing = False

    async def _initialize(self) -> None:
        await super()._initialize()
        login, context = self._store.read(), self.context
        if context.current_tokens is not None and login.expires is not None:
            context.token_expiry_time = login.expires - EARLY_SECONDS
        if login.metadata is not None:  # the address for refreshing
            context.oauth_metadata = OAuthMetadata.model_validate_json(login.metadata)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        try:
            await super()._handle_token_response(response)
        except OAuthTokenError as error:
            if self._refreshing:
                raise LoginRequired("the login has expired") from error
            raise
        self._keep_metadata()

    def _keep_metadata(self) -> None:
        if self.context.oauth_metadata is not None:
            login = self._store.read()
            login.metadata = self.context.oauth_metadata.model_dump_json()
            self._store.write(login)

    async def _perform_authorization(self) -> httpx2.Request:
        """The server refused the token: it may have been revoked, so it is refreshed once."""
        self.context.current_tokens = await self._store.get_tokens()
        if not self.context.can_refresh_token():
            raise LoginRequired("there is no login, or it has expired")
        self._refreshing = True
        return await self._refresh_token()


class BrowserLogin(StoredLogin):
    """A login by a person in a browser."""

    def __init__(
        self,
        url: str,
        store: LoginStore,
        metadata: OAuthClientMetadata,
        show: Callable[[str], Awaitable[None]],
        callback: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        """`show` presents the address of the login; `callback` waits for its answer."""
        super().__init__(url, store, metadata)
        self.context.redirect_handler = show
        self.context.callback_handler = callback

    async def _perform_authorization(self) -> httpx2.Request:
        return await OAuthClientProvider._perform_authorization(self)


class DeviceLogin(StoredLogin):
    """A login on another device (RFC 8628), for machines without a browser."""

    def __init__(
        self,
        url: str,
        store: LoginStore,
        metadata: OAuthClientMetadata,
        show: Callable[[str, str], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """`show` presents the address and the code that the person enters there."""
        super().__init__(url, store, metadata)
        self._show, self._sleep = show, sleep
        self._done = False

    async def _perform_authorization(self) -> httpx2.Request:
        async with httpx2.AsyncClient() as client:
            address = await self._discovered(client)
            await self._log_in(client, address)
        self._done = True
        # The flow sends one more request, whose answer is not used.
        return httpx2.Request("GET", self._metadata_urls()[0])

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if not self._done:
            await super()._handle_token_response(response)

    def _metadata_urls(self) -> list[str]:
        return build_oauth_authorization_server_metadata_discovery_urls(
            self.context.auth_server_url, self.context.server_url
        )

    async def _discovered(self, client: httpx2.AsyncClient) -> str:
        """The address where a device login begins. The SDK's metadata does not have it."""
        for url in self._metadata_urls():
            answer = await client.get(url)
            if answer.status_code == 200:
                found: Any = answer.json().get("device_authorization_endpoint")
                if isinstance(found, str):
                    return found
        raise OAuthFlowError("the server has no device login: log in with a browser")

    async def _log_in(self, client: httpx2.AsyncClient, address: str) -> None:
        context = self.context
        assert context.client_info is not None
        asked: dict[str, str] = {"client_id": context.client_info.client_id}
        if context.client_metadata.scope:
            asked["scope"] = context.client_metadata.scope
        if context.should_include_resource_param(context.protocol_version):
            asked["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(dict(asked), {})
        begun = await client.post(address, data=data, headers=headers)
        if begun.status_code != 200:
            raise OAuthFlowError(f"the server refused the device login: HTTP {begun.status_code}")
        device = begun.json()
        shown = device.get("verification_uri_complete") or device["verification_uri"]
        await self._show(shown, device["user_code"])
        pause = float(device.get("interval") or DEVICE_SECONDS)
        end = time.monotonic() + float(device.get("expires_in") or 600)
        request = {**asked, "grant_type": DEVICE_GRANT, "device_code": device["device_code"]}
        while time.monotonic() < end:
            await self._sleep(pause)
            data, headers = context.prepare_token_auth(dict(request), {})
            answer = await client.post(self._get_token_endpoint(), data=data, headers=headers)
            if answer.status_code == 200:
                await super()._handle_token_response(answer)
                return
            match answer.json().get("error"):
                case "authorization_pending":
                    pass
                case "slow_down":
                    pause += DEVICE_SECONDS
                case error:
                    raise OAuthFlowError(f"the login failed: {error}")
        raise OAuthFlowError("the login was not completed in time")


def client_metadata(
    redirect: str, scope: str | None, *, device: bool = False
) -> OAuthClientMetadata:
    """The metadata with which this client registers at a server."""
    grants: list[Any] = ["authorization_code", "refresh_token"]
    if device:
        grants.append(DEVICE_GRANT)
    return OAuthClientMetadata(
        client_name="Windlass",
        redirect_uris=[AnyUrl(redirect)],
        grant_types=grants,
        scope=scope,
        token_endpoint_auth_method="none",
    )
