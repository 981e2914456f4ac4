"""The Helm chart and the alert rules, by the tools that will read them."""

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.conftest import ROOT, run
from tests.reports import complete_exposition

CHART = "deploy/chart"
KUBERNETES = "1.31"
NEWEST = "1.37"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.83.0"
CUSTOM = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator: their schemas come with its source."""

MINIMAL = {"kafka": {"bootstrapServers": "kafka:9092"}, "checkpoint": {"existingSecret": "snapshot-keys"}}
FULL: dict[str, Any] = {
    "image": {"repository": "registry.example/sidecar", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 3,
    "workers": 2,
    "partitions": 6,
    "kafka": {"bootstrapServers": "kafka:9093", "existingSecret": "kafka-client", "membership": "static"},
    "config": {
        "app_id": "churn",
        "record": {"label": "churned"},
        "explainers": [{"kind": "ipfi"}],
        "join": {"events": {"topic": "visits"}, "labels": {"topic": "cancellations"}},
    },
    "join": {"enabled": True, "volumeClaim": {"resources": {"requests": {"storage": "10Gi"}}}},
    "http": {"port": 9000, "existingSecret": "http-token"},
    "checkpoint": {"existingSecret": "snapshot-keys"},
    "extraEnv": [{"name": "PYTHONPATH", "value": "/model"}],
    "extraVolumes": [{"name": "model", "configMap": {"name": "model"}}],
    "extraVolumeMounts": [{"name": "model", "mountPath": "/model"}],
    "extraArgs": ["--verbose"],
    "extraEnvFrom": [{"configMapRef": {"name": "proxies"}}],
    "extraInitContainers": [{"name": "fetch", "image": "registry.example/fetch:1"}],
    "extraContainers": [{"name": "oauth2-proxy", "image": "registry.example/oauth2-proxy:7"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/explain"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "ml"},
    "priorityClassName": "high",
    "terminationGracePeriodSeconds": 90,
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "podMonitor": {"enabled": True, "labels": {"team": "ml"}},
    "prometheusRule": {"enabled": True, "runbookUrl": "https://wiki.example/explain"},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
}


def rendered(values: dict[str, Any], tmp_path: Path) -> dict[str, dict[str, Any]]:
    """The chart's objects by kind."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = run("helm", "template", "r", CHART, "--kube-version", KUBERNETES, "-f", str(file))
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text) if manifest}


def refused(values: dict[str, Any], tmp_path: Path) -> str:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = ["helm", "template", "r", CHART, "--kube-version", KUBERNETES, "-f", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.parametrize("values", [MINIMAL, FULL], ids=["minimal", "full"])
def test_every_object_fits_the_schema_of_kubernetes(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    run("helm", "lint", "--strict", CHART, "-f", str(tmp_path / "values.yaml"))
    objects = rendered(values, tmp_path)
    expected = {
        "StatefulSet",
        "Service",
        "ServiceAccount",
        "ConfigMap",
        "PodDisruptionBudget",
        "NetworkPolicy",
    }
    assert set(objects) == (expected if values is MINIMAL else expected | CUSTOM)
    for kind, object in objects.items():
        if kind not in CUSTOM:
            kubernetes_validate.validate(object, KUBERNETES, strict=True)
            kubernetes_validate.validate(object, NEWEST, strict=True)
    broken = objects["StatefulSet"]
    broken["spec"]["podManagmentPolicy"] = "Parallel"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


@pytest.fixture(scope="session")
def operator() -> dict[str, Any]:
    """The JSON Schema of each kind of the Prometheus operator, which allows no field beside those it names."""

    def closed(schema: dict[str, Any]) -> dict[str, Any]:
        for inner in schema.get("properties", {}).values():
            closed(inner)
        if isinstance(schema.get("items"), dict):
            closed(schema["items"])
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        return schema

    folder = Path(json.loads(run("go", "mod", "download", "-json", OPERATOR))["Dir"])
    found = {}
    for kind in ("podmonitors", "servicemonitors", "prometheusrules"):
        file = folder / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        text = file.read_text().replace("- =\n", "- '='\n")  # YAML 1.1 has a type `=`
        definition = yaml.safe_load(text.replace("^(?i)", "(?i)^"))["spec"]  # Go's order
        schema = closed(definition["versions"][0]["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        found[definition["names"]["kind"]] = schema
    return found


def test_the_objects_of_the_prometheus_operator_fit_its_schemas(
    operator: dict[str, Any], tmp_path: Path
) -> None:
    by_service = {**FULL, "podMonitor": {"enabled": False}, "serviceMonitor": {"enabled": True, "labels": {"team": "ml"}}}  # fmt: skip
    for values in (FULL, by_service):
        for kind, object in rendered(values, tmp_path).items():
            if kind in operator:
                jsonschema.validate(object, operator[kind])
    monitors = [
        rendered(values, tmp_path)[kind]["spec"][endpoints]
        for values, kind, endpoints in (
            (FULL, "PodMonitor", "podMetricsEndpoints"),
            (by_service, "ServiceMonitor", "endpoints"),
        )
    ]
    assert monitors[0] == monitors[1] and monitors[0][0]["authorization"]["credentials"]["key"] == "token"
    broken = rendered(FULL, tmp_path)["PodMonitor"]
    broken["spec"]["podMetricsEndpoint"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, operator["PodMonitor"])


def test_alerts_lead_to_the_runbook_where_the_team_reads_it(tmp_path: Path) -> None:
    def links(values: dict[str, Any]) -> set[str]:
        (group,) = rendered(values, tmp_path)["PrometheusRule"]["spec"]["groups"]
        return {rule["annotations"]["runbook_url"].partition("#")[0] for rule in group["rules"]}

    assert links(FULL) == {"https://wiki.example/explain"}
    assert links({**FULL, "prometheusRule": {"enabled": True}}) == {"docs/runbook.md"}


def test_two_sidecars_of_one_release_do_not_collide(tmp_path: Path) -> None:
    parent = tmp_path / "platform"
    parent.mkdir()
    dependency = {"name": "explanation-sidecar", "version": "*", "repository": f"file://{ROOT / CHART}"}
    names = ("churn", "fraud")
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    chart["dependencies"] = [{**dependency, "alias": name} for name in names]
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    own = {**FULL, "checkpoint": {}, "replicas": 1, "partitions": None}
    (parent / "values.yaml").write_text(yaml.safe_dump(dict.fromkeys(names, own)))
    run("helm", "dependency", "build", str(parent))
    text = run("helm", "template", "r", str(parent), "--kube-version", KUBERNETES)
    objects = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    called = [(object["kind"], object["metadata"]["name"]) for object in objects]
    assert len(set(called)) == len(called) == 2 * len({kind for kind, _ in called})
    stateful = [object for object in objects if object["kind"] == "StatefulSet"]
    for one, other in (stateful, stateful[::-1]):
        wanted = one["spec"]["selector"]["matchLabels"]
        labels = other["spec"]["template"]["metadata"]["labels"]
        assert any(labels[name] != value for name, value in wanted.items())


@pytest.mark.parametrize(
    ("release", "change", "name"),
    [
        ("explained", {}, "explained-explanation-sidecar"),
        ("explanation-sidecar-eu", {}, "explanation-sidecar-eu"),
        ("explained", {"nameOverride": "sidecar"}, "explained-sidecar"),
        ("explained", {"fullnameOverride": "churn"}, "churn"),
        ("a" * 50, {}, "a" * 50 + "-e"),
    ],
)
def test_objects_are_called_as_every_chart_calls_them(
    release: str, change: dict[str, str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**MINIMAL, **change}))
    text = run(
        "helm", "template", release, CHART, "--kube-version", KUBERNETES, "-f", str(tmp_path / "values.yaml")
    )
    assert {object["metadata"]["name"] for object in yaml.safe_load_all(text) if object} == {name}


def test_the_readme_of_the_chart_is_that_of_its_values() -> None:
    command = ("helm-docs", "--chart-search-root", CHART, "--sort-values-order", "file", "--log-level", "warning")  # fmt: skip
    assert run(*command, "--dry-run").strip() == (ROOT / CHART / "README.md").read_text().strip()


def test_the_pods_are_what_the_service_needs_and_no_more(tmp_path: Path) -> None:
    objects = rendered(FULL, tmp_path)
    stateful = objects["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    container = pod["containers"][0]
    assert (stateful["replicas"], stateful["podManagementPolicy"]) == (3, "Parallel")
    assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
    assert pod["terminationGracePeriodSeconds"] == 90
    account = objects["ServiceAccount"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert account["metadata"]["annotations"] == FULL["serviceAccount"]["annotations"]
    assert account["automountServiceAccountToken"] is False
    assert stateful["template"]["metadata"]["labels"]["team"] == "ml"
    assert pod["priorityClassName"] == "high"
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == stateful["selector"]["matchLabels"]
    assert [other["name"] for other in pod["containers"][1:]] == ["oauth2-proxy"]
    assert [other["name"] for other in pod["initContainers"]] == ["fetch"]
    assert container["envFrom"] == FULL["extraEnvFrom"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["args"][-4:] == ["--workers", "2", "--with-join", "--verbose"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    environment = {variable["name"]: variable for variable in container["env"]}
    assert environment["EXPLAIN_KAFKA__CONFIG"]["valueFrom"]["secretKeyRef"]["name"] == "kafka-client"
    assert environment["EXPLAIN_HTTP__TOKEN"]["valueFrom"]["secretKeyRef"]["name"] == "http-token"
    assert "EXPLAIN_KAFKA__GROUP_INSTANCE_ID" in environment
    assert environment["EXPLAIN_CHECKPOINT__HMAC_KEY_FILE"]["value"] == "/etc/explain/checkpoint/keys"
    assert {"name": "checkpoint", "mountPath": "/etc/explain/checkpoint", "readOnly": True} in container[
        "volumeMounts"
    ]
    keys = {"secretName": "snapshot-keys", "defaultMode": 0o440}
    assert {"name": "checkpoint", "secret": keys} in pod["volumes"]
    made = rendered({**MINIMAL, "checkpoint": {}}, tmp_path)
    assert len(base64.b64decode(made["Secret"]["data"]["keys"])) == 64
    assert made["Secret"]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (mounted,) = [
        volume["secret"]["secretName"]
        for volume in made["StatefulSet"]["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "checkpoint"
    ]
    assert mounted == made["Secret"]["metadata"]["name"]
    assert "Secret" not in objects
    assert objects["Service"]["spec"]["clusterIP"] == "None"
    assert objects["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    dynamic = rendered(MINIMAL, tmp_path)["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "EXPLAIN_KAFKA__GROUP_INSTANCE_ID" not in {variable["name"] for variable in dynamic}


def test_the_join_keeps_its_state_on_a_disk_where_one_is_claimed(tmp_path: Path) -> None:
    def pod(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        stateful = rendered(values, tmp_path)["StatefulSet"]["spec"]
        return stateful, stateful["template"]["spec"]

    claimed, with_disk = pod(FULL)
    (claim,) = claimed["volumeClaimTemplates"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "10Gi"}}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    unclaimed, without_disk = pod({**FULL, "join": {"enabled": True}})
    assert "volumeClaimTemplates" not in unclaimed
    assert {"name": "join", "emptyDir": {}} in without_disk["volumes"]
    for spec, names in ((with_disk, {"join"}), (without_disk, set())):
        container = spec["containers"][0]
        environment = {variable["name"]: variable.get("value") for variable in container["env"]}
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "join"]
        assert str(environment["EXPLAIN_JOIN__STATE_DIR"]).startswith(f"{mount['mountPath']}/")
        assert names.isdisjoint(volume["name"] for volume in spec["volumes"])
    off, plain = pod(MINIMAL)
    assert "join" not in str(plain) and "volumeClaimTemplates" not in off


def test_what_is_not_asked_for_is_not_reachable(tmp_path: Path) -> None:
    def environment(objects: dict[str, dict[str, Any]]) -> dict[str, str]:
        container = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
        return {variable["name"]: variable.get("value", "") for variable in container["env"]}

    closed, opened = rendered(MINIMAL, tmp_path), rendered(FULL, tmp_path)
    assert closed["NetworkPolicy"]["spec"]["ingress"] == []
    assert closed["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress"]
    assert opened["NetworkPolicy"]["spec"]["ingress"] == [
        {"ports": [{"port": "http", "protocol": "TCP"}], "from": [{"namespaceSelector": {}}]}
    ]
    assert environment(closed)["EXPLAIN_HTTP__DASHBOARD"] == "false"
    assert "EXPLAIN_HTTP__TOKEN" not in environment(closed)
    assert "EXPLAIN_HTTP__DASHBOARD" not in environment(opened)
    assert "EXPLAIN_HTTP__TOKEN" in environment(opened)
    off = rendered({**MINIMAL, "networkPolicy": {"enabled": False}}, tmp_path)
    assert "NetworkPolicy" not in off


def test_a_digest_is_preferred_to_a_tag(tmp_path: Path) -> None:
    digest = f"sha256:{'0123456789abcdef' * 4}"
    objects = rendered({**FULL, "image": {**FULL["image"], "digest": digest}}, tmp_path)
    image = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"registry.example/sidecar@{digest}"
    tagged = rendered(FULL, tmp_path)["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["image"]
    assert tagged == "registry.example/sidecar:1.2.3"


def test_the_service_accepts_the_settings_that_the_chart_gives_it(tmp_path: Path) -> None:
    objects = rendered(FULL, tmp_path)
    config = tmp_path / "sidecar.yaml"
    config.write_text(objects["ConfigMap"]["data"]["sidecar.yaml"])
    container = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    secrets = {"EXPLAIN_KAFKA__CONFIG": '{"sasl.username": "sidecar"}', "EXPLAIN_HTTP__TOKEN": "t"}
    environment = {
        variable["name"]: variable.get("value", secrets.get(variable["name"], "pod-0"))
        for variable in container["env"]
        if variable["name"].startswith("EXPLAIN_")
    }
    shown = run("explain-sidecar", "--config", str(config), "config", "show", **environment)
    for name, value in {
        "app_id": "churn",
        "record.label": "churned",
        "kafka.group_instance_id": "pod-0",
    }.items():
        assert re.search(rf"{name}\b.*\b{value}\b", shown), shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka": {}}, "bootstrapServers"),
        ({"partitions": 5}, "replicas (3) × workers (2) is more than the 5 partitions"),
        ({"kafka": {"bootstrapServers": "k:9092", "membership": "fixed"}}, "membership"),
        ({"replica": 3}, "replica"),
        ({"serviceMonitor": {"enabled": True}}, "every pod would be scraped twice"),
        ({"prometheusRule": {"runbookUrl": "wiki"}}, "runbookUrl"),
        ({"config": {"http": {"port": 80}}}, "port"),
        ({"config": {"http": {"dashboard": True}}, "http": {"port": 9000}}, "http.existingSecret"),
        ({"image": {"repository": "r", "digest": "sha256:12"}}, "digest"),
        ({"config": {}}, "config.join.events.topic"),
        ({"config": {"join": {"state_dir": "/tmp"}}}, "state_dir"),
        ({"config": {"checkpoint": {"hmac_key_file": "keys"}}}, "hmac_key_file"),
    ],
)
def test_values_that_cannot_work_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in refused({**FULL, **change}, tmp_path)


def test_every_alert_fires_is_silent_when_it_should_be_and_has_an_entry_in_the_runbook() -> None:
    run("promtool", "check", "rules", f"{CHART}/files/alerts.yaml")
    run("promtool", "test", "rules", "deploy/prometheus/alerts_test.yaml")
    rules = yaml.safe_load((ROOT / CHART / "files/alerts.yaml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((ROOT / "deploy/prometheus/alerts_test.yaml").read_text())["tests"]
    checks = [check for test in tests for check in test["alert_rule_test"]]
    names = {rule["alert"] for rule in rules}
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == names
    assert {check["alertname"] for check in checks if not check.get("exp_alerts")} == names
    entries = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert entries == [rule["alert"] for rule in rules]
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_promtool_finds_nothing_to_complain_about_in_the_metrics() -> None:
    def check(text: bytes) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)

    done = check(complete_exposition())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert check(complete_exposition() + b"x{} 1\nx{} 2\n").returncode != 0


def test_people_sign_in_at_the_proxy_of_the_example_which_gives_the_token_for_them(tmp_path: Path) -> None:
    folder = ROOT / "deploy" / "oauth2-proxy"
    values = yaml.safe_load((folder / "values.yaml").read_text()) | MINIMAL
    release = "explained"
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    text = run(
        "helm", "template", release, CHART, "--kube-version", KUBERNETES, "-f", str(tmp_path / "values.yaml")
    )
    objects = {found["kind"]: found for found in yaml.safe_load_all(text) if found}
    access = {found["kind"]: found for found in yaml.safe_load_all((folder / "access.yaml").read_text())}
    for found in (*objects.values(), *access.values()):
        kubernetes_validate.validate(found, KUBERNETES, strict=True)
    template = objects["StatefulSet"]["spec"]["template"]
    sidecar, proxy = template["spec"]["containers"]
    labels = template["metadata"]["labels"].items()
    assert access["Service"]["spec"]["selector"].items() <= labels
    assert access["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    (port,) = proxy["ports"]
    assert access["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert access["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] == port["name"]
    alpha = yaml.safe_load(access["ConfigMap"]["data"]["alpha.yaml"])
    assert alpha["server"]["bindAddress"].endswith(f":{port['containerPort']}")
    (upstream,) = alpha["upstreamConfig"]["upstreams"]
    (http,) = sidecar["ports"]
    assert upstream["uri"] == f"http://127.0.0.1:{http['containerPort']}"
    (header,) = alpha["injectRequestHeaders"]
    given = {variable["name"]: variable for variable in proxy["env"]}
    (source,) = header["values"]
    assert header["name"] == "Authorization"
    assert given[source["secretSource"]["fromEnv"]]["value"] == "Bearer $(TOKEN)"
    own = {variable["name"]: variable for variable in sidecar["env"]}
    assert given["TOKEN"]["valueFrom"] == own["EXPLAIN_HTTP__TOKEN"]["valueFrom"]
    mounted = {mount["name"]: mount["mountPath"] for mount in proxy["volumeMounts"]}
    assert mounted.keys() <= {volume["name"] for volume in template["spec"]["volumes"]}
    assert alpha["providers"][0]["clientSecretFile"] == f"{mounted['oauth2-client']}/client-secret"
