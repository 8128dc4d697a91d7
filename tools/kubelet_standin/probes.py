"""Ask a container how it is: httpGet, tcpSocket and exec probes with the kubelet's timings and thresholds."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import aiohttp

from tools.kubelet_standin.api import Object
from tools.kubelet_standin.process import Process


class Probe:
    """One probe of one run of a container. `passed` is None until thresholds were reached once."""

    def __init__(self, spec: Object, container: Object, process: Process, address: str) -> None:
        self._spec = spec
        self._container = container
        self._process = process
        self._address = address
        self.passed: bool | None = None
        self.message = ""

    async def watch(self, changed: Callable[[bool], Awaitable[None]]) -> None:
        """Probe until cancelled; call `changed` at the first verdict and whenever it turns."""
        spec, run = self._spec, 0
        last: bool | None = None
        await asyncio.sleep(spec.get("initialDelaySeconds", 0))
        while True:
            good = await self._good()
            run = run + 1 if good is last else 1
            last = good
            needed = spec.get("successThreshold", 1) if good else spec.get("failureThreshold", 3)
            if run >= needed and good is not self.passed:
                self.passed = good
                await changed(good)
            await asyncio.sleep(spec.get("periodSeconds", 10))

    async def _good(self) -> bool:
        timeout = float(self._spec.get("timeoutSeconds", 1))
        try:
            if (http := self._spec.get("httpGet")) is not None:
                return await self._http(http, timeout)
            if (tcp := self._spec.get("tcpSocket")) is not None:
                host, port = tcp.get("host") or self._address, self._port(tcp["port"])
                async with asyncio.timeout(timeout):
                    _, writer = await asyncio.open_connection(host, port)
                writer.close()
                await writer.wait_closed()
                return True
            command = self._spec["exec"]["command"]
            code = await self._process.run_inside(command, timeout)
            self.message = f"{command}: exit code {code}"
            return code == 0
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.message = f"{type(error).__name__}: {error}"
            return False

    async def _http(self, http: Object, timeout_seconds: float) -> bool:
        scheme = http.get("scheme", "HTTP").lower()
        host, port = http.get("host") or self._address, self._port(http["port"])
        url = f"{scheme}://{host}:{port}{http.get('path', '/')}"
        unverified = ssl.create_default_context()  # as the kubelet, which verifies no probe
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        headers = {h["name"]: h["value"] for h in http.get("httpHeaders", ())}
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers, ssl=unverified, allow_redirects=False) as answer,
        ):
            self.message = f"HTTP probe failed with statuscode: {answer.status}"
            return 200 <= answer.status < 400

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        for named in self._container.get("ports", ()):
            if named.get("name") == port:
                return int(named["containerPort"])
        raise OSError(f"no container port is named {port!r}")
