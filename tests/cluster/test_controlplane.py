"""The test ground itself: real parts, rights that bind, and nothing left behind."""

from pathlib import Path

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.kube import Kube, connect
from tests.cluster.fixtures import Kubectl
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered


def test_the_server_says_the_version_that_is_pinned(control_plane: Access, kubectl: Kubectl) -> None:
    assert control_plane.call("GET", "/version")["gitVersion"] == "v1.36.3"
    assert "Server Version: v1.36.3" in kubectl("version").stdout


async def test_the_operators_client_lists_as_admin(kube: Kube, namespace: str) -> None:
    accounts, version = await kube.listed(f"/api/v1/namespaces/{namespace}/serviceaccounts")

    assert [account["metadata"]["name"] for account in accounts] == ["default"]
    assert version


async def test_a_service_account_without_rights_is_refused(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    config = control_plane.kubeconfig_for("default", namespace, tmp_path)
    async with connect(config) as client:
        with pytest.raises(Unavailable, match="list pods"):
            await client.listed(f"/api/v1/namespaces/{namespace}/pods")


def test_a_service_account_may_do_what_its_role_says(
    control_plane: Access, namespace: str, kubectl: Kubectl
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    token = control_plane.token_for("default", namespace)
    with pytest.raises(Answered, match="403 Forbidden"):
        control_plane.call("GET", pods, token=token)

    kubectl("create", "role", "reader", "--verb=list", "--resource=pods", "-n", namespace)
    kubectl(
        "create",
        "rolebinding",
        "b",
        "--role=reader",
        f"--serviceaccount={namespace}:default",
        "-n",
        namespace,
    )

    assert control_plane.call("GET", pods, token=token)["items"] == []


def test_a_token_of_no_service_account_is_not_given(control_plane: Access, namespace: str) -> None:
    with pytest.raises(Answered, match="404 NotFound"):
        control_plane.token_for("nobody", namespace)
