"""Make the folders of a pod's volumes, and keep those that come from the API server as it has them.

emptyDir, secret, configMap, downwardAPI and projected (with serviceAccountToken) volumes. Files change
atomically behind a link `..data`, as the kubelet does it.
"""

import os
import shutil
from pathlib import Path

from tools.kubelet_standin.api import Api, Object
from tools.kubelet_standin.clock import monotonic
from tools.kubelet_standin.environment import NotYet, data_of, field_of

ROOT_CA = "kube-root-ca.crt"
TOKEN_SECONDS = 3600


class Volumes:
    """The volumes of one pod under a folder; `refresh` again and again keeps them up to date."""

    def __init__(self, api: Api, pod: Object, folder: Path, address: str) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._address = address
        self._written: dict[str, dict[str, bytes]] = {}
        self._tokens: dict[str, tuple[float, bytes]] = {}
        self._version = 0

    @property
    def change(self) -> bool:
        """Whether any volume comes from the API server."""
        return any("emptyDir" not in volume for volume in self._pod["spec"].get("volumes", ()))

    async def refresh(self) -> None:
        """Bring every volume up to date; raise `NotYet` for what is not there."""
        for volume in self._pod["spec"].get("volumes", ()):
            folder = self.path(volume["name"])
            if "emptyDir" in volume:
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o777)
                continue
            files = await self._files(volume)
            if self._written.get(volume["name"]) != files:
                self._write(folder, files)
                self._written[volume["name"]] = files

    def path(self, volume: str) -> Path:
        """The folder of a volume."""
        return self._folder / volume

    def mounts(self, container: Object) -> list[dict[str, object]]:
        """Where a container's volumes go: [{"source", "target", "read_only"}], parents before children."""
        writable = {v["name"] for v in self._pod["spec"].get("volumes", ()) if "emptyDir" in v}
        found: list[dict[str, object]] = []
        for mount in sorted(container.get("volumeMounts", ()), key=lambda m: str(m["mountPath"])):
            source = self.path(mount["name"]) / mount.get("subPath", "")
            if mount.get("subPath") and mount["name"] in writable:
                source.mkdir(parents=True, exist_ok=True)
            read_only = bool(mount.get("readOnly")) or mount["name"] not in writable
            found.append({"source": str(source), "target": mount["mountPath"], "read_only": read_only})
        return found

    async def _files(self, volume: Object) -> dict[str, bytes]:
        for kind in ("secret", "configMap"):
            if (source := volume.get(kind)) is not None:
                return await self._data(
                    kind, {"name": source.get("secretName") or source.get("name"), **source}
                )
        if (fields := volume.get("downwardAPI")) is not None:
            return self._fields(fields)
        if (projected := volume.get("projected")) is not None:
            files: dict[str, bytes] = {}
            for source in projected.get("sources", ()):
                files |= await self._projected(volume["name"], source)
            return files
        raise NotYet(f"volume {volume['name']!r}: its kind is not supported by this stand-in")

    async def _projected(self, volume: str, source: Object) -> dict[str, bytes]:
        if (token := source.get("serviceAccountToken")) is not None:
            return {token["path"]: await self._token(f"{volume}/{token['path']}", token)}
        if (fields := source.get("downwardAPI")) is not None:
            return self._fields(fields)
        for kind in ("secret", "configMap"):
            if (part := source.get(kind)) is not None:
                return await self._data(kind, part)
        raise NotYet(f"volume {volume!r}: source {', '.join(source)} is not supported by this stand-in")

    async def _data(self, kind: str, source: Object) -> dict[str, bytes]:
        name = source["name"]
        data = await data_of(self._api, self._pod["metadata"]["namespace"], kind, name)
        if data is None and name == ROOT_CA and self._api.access.ca is not None:
            data = {"ca.crt": self._api.access.ca}
        if data is None:
            if source.get("optional"):
                return {}
            raise NotYet(f'{kind.lower()} "{name}" not found')
        if not source.get("items"):
            return data
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise NotYet(f'{kind.lower()} "{name}" has no key {", ".join(missing)}')
        return {item["path"]: data[item["key"]] for item in source["items"] if item["key"] in data}

    def _fields(self, source: Object) -> dict[str, bytes]:
        items = source.get("items", ())
        return {
            item["path"]: field_of(self._pod, item["fieldRef"]["fieldPath"], self._address).encode()
            for item in items
        }

    async def _token(self, key: str, wanted: Object) -> bytes:
        """A token of the pod's ServiceAccount, renewed when a fifth of its time is left."""
        known = self._tokens.get(key)
        if known is not None and monotonic() < known[0]:
            return known[1]
        seconds = wanted.get("expirationSeconds", TOKEN_SECONDS)
        meta, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName", "default")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec = {"expirationSeconds": seconds, "boundObjectRef": bound}
        if wanted.get("audience"):
            spec["audiences"] = [wanted["audience"]]
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        made = await self._api.create(path, {**kind, "spec": spec})
        token = str(made["status"]["token"]).encode()
        self._tokens[key] = (monotonic() + 0.8 * seconds, token)
        return token

    def _write(self, folder: Path, files: dict[str, bytes]) -> None:
        """Put the files into a new folder and turn the link `..data` to it."""
        self._version += 1
        fresh = folder / f"..{self._version}"
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o640)
        fresh.mkdir(parents=True, exist_ok=True)
        turned = folder / "..data_new"
        turned.symlink_to(fresh.name)
        old = (folder / "..data").readlink() if (folder / "..data").is_symlink() else None
        os.replace(turned, folder / "..data")
        tops = {name.partition("/")[0] for name in files}
        for top in tops:
            if not (folder / top).is_symlink():
                (folder / top).symlink_to(Path("..data") / top)
        for path in folder.iterdir():
            if not path.name.startswith("..") and path.name not in tops:
                path.unlink()
        if old is not None:
            shutil.rmtree(folder / old, ignore_errors=True)
