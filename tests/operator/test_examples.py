"""examples/operator.yaml and its namespaced form: they parse, and hold exactly the rights that are used."""

import re

import pytest

from kvtune_operator.__main__ import parser, settings_of
from kvtune_operator.config_text import operator_config
from tests.cluster.rights import USES, documents, granted

BOTH = ("operator.yaml", "operator-namespaced.yaml")


@pytest.mark.parametrize("name", BOTH)
def test_every_right_is_used_and_no_other_is_given(name: str) -> None:
    assert granted(name) == set(USES)
    assert not any("*" in part for right in granted(name) for part in right)


@pytest.mark.parametrize("name", BOTH)
def test_the_commented_settings_are_valid_without_their_comment_signs(name: str) -> None:
    [text] = [found["data"]["config.yaml"] for found in documents(name) if found["kind"] == "ConfigMap"]
    assert operator_config(text) == operator_config("agents: {insecure: true}")

    settings = [line for line in text.splitlines() if re.match(r"# ([a-zA-Z]+:|  )", line)]
    config = operator_config("\n".join(line.removeprefix("# ") for line in settings))

    assert len(config.freeze_windows) == 3
    assert config.prometheus.address == "http://prometheus.monitoring:9090"


@pytest.mark.parametrize(("name", "served"), [(BOTH[0], ()), (BOTH[1], ("chat",))])
def test_the_deployment_starts_the_operator_as_it_understands(name: str, served: tuple[str, ...]) -> None:
    [deployment] = [found for found in documents(name) if found["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]
    environment = {"POD_NAME": "kvtune-operator-x", "POD_NAMESPACE": "kvtune-system"}
    environment |= {item["name"]: item["value"] for item in container["env"] if "value" in item}
    args = [arg.replace("$(POD_IP)", "10.0.0.1") for arg in container["args"]]
    settings = settings_of(parser(environment).parse_args(args), environment)

    assert settings.stop_seconds < spec["terminationGracePeriodSeconds"]
    assert settings.watch_namespaces == served
    assert settings.health_port == container["ports"][0]["containerPort"]
    assert deployment["spec"]["replicas"] == 2


@pytest.mark.parametrize("name", BOTH)
def test_the_pod_keeps_the_restricted_profile(name: str) -> None:
    [deployment] = [found for found in documents(name) if found["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
