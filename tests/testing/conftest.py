"""What the SDKs need of the machine: almost nothing."""

from pathlib import Path

import certifi
import pytest

END = "-----END CERTIFICATE-----\n"


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    first, _, _ = Path(certifi.where()).read_text().partition(END)
    path.write_text(first + END)
    return path


@pytest.fixture(autouse=True)
def few_certificates(one_certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client of an SDK reads all certificates, up to three times; the fakes need none."""
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
