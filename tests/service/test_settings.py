"""Settings: what wins, what is refused and in which words, and that no secret is ever shown."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from explain_sidecar.errors import SettingsError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.settings import Settings, effective, load_settings
from explain_sidecar.settings.kafka import OWNED_KEYS
from explain_sidecar.settings.sources import walk

VERSIONS = "models: {uris: {a: m}}\nrecord: {model_version: v}"


def _file(folder: Path, text: str, name: str = "sidecar.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(environ: dict[str, str] | None = None, config: Path | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(config, environ or {})
    return str(caught.value)


def test_the_environment_wins_over_the_file_over_defaults(tmp_path: Path) -> None:
    config = _file(tmp_path, "app_id: of-file\nemit: {every: 7}\nseed: 1\nexplain: {every: 3}\n")
    environ = {"EXPLAIN_EMIT__EVERY": "8", "EXPLAIN_SEED": "2", "OTHER": "x"}
    settings = load_settings(config, environ)
    assert (settings.app_id, settings.emit.every, settings.seed) == ("of-file", 8, 2)
    assert settings.explain.every == 3 and settings.commit.interval_ms == 100


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    yaml = _file(tmp_path, "model: {task: regression}\nexplainers: [{kind: isage, losses: [huber]}]\n")
    toml = _file(
        tmp_path,
        '[model]\ntask = "regression"\n[[explainers]]\nkind = "isage"\nlosses = ["huber"]\n',
        "a.toml",
    )
    assert load_settings(yaml, {}) == load_settings(toml, {})


def test_environment_takes_json_and_single_model_parameters() -> None:
    settings = load_settings(
        None,
        {
            "EXPLAIN_MODEL__PARAMS": '{"n_models": 10, "seed": 1}',
            "EXPLAIN_MODEL__PARAMS__SEED": "5",
            "EXPLAIN_MODEL__PARAMS__METRIC": "gini",
            "EXPLAIN_EXPLAINERS": '[{"kind": "ipfi", "groups": {"place": ["lat", "lon"]}}]',
            "EXPLAIN_KAFKA__CONFIG": '{"a.b": true, "c": 1.5}',
        },
    )
    assert settings.model.params == {"n_models": 10, "seed": 5, "metric": "gini"}
    assert settings.explainers[0].groups == {"place": ["lat", "lon"]}
    assert settings.kafka.config == {"a.b": True, "c": 1.5}


def test_partitions_have_names_by_their_numbers(tmp_path: Path) -> None:
    config = _file(tmp_path, "partition_labels: {0: JFK, 12: La Guardia}\n")
    settings = load_settings(config, {"EXPLAIN_PARTITION_LABELS__0": "EWR"})
    assert settings.partition_labels == {0: "EWR", 12: "La Guardia"}
    assert [settings.name_of(partition, "of key") for partition in (0, 12, 1)] == [
        "EWR",
        "La Guardia",
        "of key",
    ]
    assert settings.name_of(1, None) == "partition 1"
    refusal = _refusal({"EXPLAIN_PARTITION_LABELS": '{"JFK": "0"}'})
    assert "partition_labels" in refusal and "'JFK'" in refusal


def test_a_section_that_is_empty_in_the_file_has_its_defaults(tmp_path: Path) -> None:
    assert load_settings(_file(tmp_path, "kafka:\n#  config: {}\nseed: 4\n"), {}) == Settings(seed=4)


def test_default_is_one_explainer_of_each_kind() -> None:
    assert [explainer.kind for explainer in load_settings(None, {}).explainers] == ["ipfi", "isage"]


@pytest.mark.parametrize(
    ("variable", "known"),
    [
        ("EXPLAIN_EMIT_EVERY", "EXPLAIN_EMIT__EVERY"),
        ("EXPLAIN_BOOTSTRAP_SERVERS", "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"),
        ("EXPLAIN_CHECKPOINT__MAX_AG", "EXPLAIN_CHECKPOINT__MAX_AGE"),
    ],
)
def test_unknown_variable_names_the_nearest_known_one(variable: str, known: str) -> None:
    message = _refusal({variable: "5"})
    assert f"environment {variable}" in message and f"did you mean {known}?" in message


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("emitt: {every: 1}", "emit"),
        ("record: {lable: y}", "record.label"),
        ("explainers: [{kind: ipfi}, {kind: isage, alhpa: 1}]", "explainers.1.alpha"),
        ("explainers: [{kind: ipfi, reservoir: {sise: 1}}]", "explainers.0.reservoir.size"),
    ],
)
def test_unknown_key_in_a_file_names_the_nearest_known_one(tmp_path: Path, text: str, known: str) -> None:
    config = _file(tmp_path, text)
    message = _refusal(config=config)
    assert f"file {config}" in message and f"did you mean {known}?" in message


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("EMIT__PERIODS", '["year"]', "emit.periods.0 = 'year' (environment EXPLAIN_EMIT__PERIODS): Input should be 'hour', "),
        ("JOIN__UNLABELLED", '{"a": 1}', "join.unlabelled = {'a': 1} (environment EXPLAIN_JOIN__UNLABELLED): Input should be a valid string, or "),
        ("RECORD__WHERE", '{"a": [{}]}', "record.where.a.0 = {} (environment EXPLAIN_RECORD__WHERE): Input should be a valid string, or "),
    ],
)  # fmt: skip
def test_a_value_of_none_of_several_kinds_is_named_once_by_its_setting_and_source(
    variable: str, value: str, told: str
) -> None:
    (line,) = _refusal({f"EXPLAIN_{variable}": value}).splitlines()
    assert line.startswith(told)


def test_a_transaction_has_no_more_records_than_can_be_counted() -> None:
    assert "commit.max_records" in _refusal({"EXPLAIN_COMMIT__MAX_RECORDS": "9" * 20})


def test_every_problem_is_listed_at_once_with_name_value_source_and_meaning(tmp_path: Path) -> None:
    config = _file(tmp_path, "emit: {every: 0}\nmodel: {task: ranking}\nexplainers: [{alpha: 2}]\n")
    lines = _refusal({"EXPLAIN_COMMIT__INTERVAL_MS": "9000", "EXPLAIN_SEED": "many"}, config).splitlines()
    assert {line.split(" ")[0] for line in lines} == {
        "emit.every",
        "model.task",
        "explainers.0.kind",
        "explainers.0.alpha",
        "commit.interval_ms",
        "seed",
    }
    (commit,) = [line for line in lines if line.startswith("commit")]
    assert "= '9000' (environment EXPLAIN_COMMIT__INTERVAL_MS)" in commit
    assert "5000" in commit and "transaction timeout of 10 s" in commit
    (emit,) = [line for line in lines if line.startswith("emit")]
    assert f"= 0 (file {config})" in emit and "greater than or equal to 1" in emit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("explainers: [{kind: ipfi}, {kind: ipfi}]", ["explainers.1", "'ipfi'", "name of its own"]),
        ("explainers: [{kind: ipfi, name: a}, {kind: isage, name: a}]", ["explainers.1", "'a'"]),
        ("explainers: [{kind: ipfi, alpha: 0.1, window: 9}]", ["alpha", "0.1", "window 9", "keep one"]),
        (
            "explainers: [{kind: ipfi, losses: [squared]}]",
            ["explainers.0.losses", "squared", "cross_entropy"],
        ),
        ("explainers: [{kind: ipfi, losses: [logg]}]", ["explainers.0.losses.0", "'logg'", "brier"]),
        ("explainers: [{kind: ipfi, losses: [brier, brier]}]", ["explainers.0.losses", "'brier' twice"]),
        ("explainers: [{kind: ipfi, groups: {g: []}}]", ["explainers.0.groups.g", "empty"]),
        ("explainers: [{kind: ipfi, groups: {g: [a], h: [a]}}]", ["explainers.0.groups", "'a' twice"]),
        (
            "record: {features: [a]}\nexplainers: [{kind: ipfi, groups: {g: [b]}}]",
            ["explainers.0.groups.g", "'b'", "record.features"],
        ),
        ("explainers: [{kind: ipfi, empty: ema}]", ["explainers.0.empty", "isage"]),
        ("explainers: [{kind: ipfi, removal: conditional}]", ["explainers.0.removal", "isage"]),
        (
            "explainers: [{kind: isage, removal: joint}]",
            ["explainers.0.removal", "'marginal' or 'conditional'"],
        ),
        ("explainers: []", ["explainers", "at least 1"]),
        ("explainers: [{kind: ipfi, window: .inf}]", ["explainers.0.window", "finite"]),
        ("explainers: [{kind: ipfi, window: 2.0e+12}]", ["explainers.0.window", "1000000000000"]),
        ("explainers: [{kind: ipfi, alpha: 1.0e-17}]", ["explainers.0.alpha", "0.000000000001"]),
        ("model: {task: regression}\ndrift: {loss: hinge}", ["drift.loss", "hinge", "huber", "regression"]),
        ("drift: {ignore: [a, a]}", ["drift.ignore", "'a' twice"]),
        ("drift: {ignore: [a], groups: {g: [a, b]}}", ["drift.groups.g", "'a'", "drift.ignore"]),
        ("record: {features: [a]}\ndrift: {ignore: [b]}", ["drift.ignore", "'b'", "record.features"]),
        ("record: {label: y, features: [x, y]}", ["record.label", "'y'", "record.features"]),
        ("record: {features: [x, x]}", ["record.features", "'x' twice"]),
        ("topics: {drift: records}", ["topics.drift", "'records'", "topics.records"]),
        ("topics: {drift: a b}", ["topics.drift", "'a b'", "characters"]),
        ("topics: {replication_factor: 0}", ["topics.replication_factor", "at least 1"]),
        ("recovery: {on_divergence: continue, partition: 0}", ["recovery.offset", "missing"]),
        ("kafka: {config: {a.b: [1]}}", ["kafka.config.a.b", "list", "string"]),
        (
            "model: {on_new_partition: merge}",
            ["model.on_new_partition", "'merge'", "cannot be merged", "use copy"],
        ),
        ("model: {factory: river.forest}", ["model.factory", "'river.forest'", "module:Class"]),
        ("model: {uri: m, factory: a:b}", ["model.factory", "and uri are both given"]),
        ("model: {uri: m, static: false}", ["never learns"]),
        ("model: {classes: [a, b]}", ["model.uri, which is not set"]),
        ("model: {features: [a]}", ["model.uri, which is not set"]),
        ("models: {pattern: m}\nrecord: {model_version: v}", ["write {version} where the version"]),
        ("models: {uris: {a: m}}", ["record.model_version", "is missing"]),
        ("record: {model_version: v}", ["names versions, and models has none"]),
        (f"{VERSIONS}\nmodel: {{uri: m}}", ["model.uri", "and models are both given"]),
        (f"{VERSIONS}\nmodel: {{static: false}}", ["never learn"]),
        (f"models: {{uris: {{{'x' * 201}: m}}}}\nrecord: {{model_version: v}}", ["models.uris"]),
        ("models: {uris: {a: m}}\nrecord: {model_version: 'header:'}", ["names nothing"]),
        (
            "challenger: {params: {a: 1}}",
            ["challenger.params", "is set without challenger.name, challenger.factory or challenger.uri"],
        ),
        ("challenger: {confidence: 0.9}", ["challenger.confidence", "is set without"]),
        ("challenger: {uri: m, factory: a:b}", ["challenger.factory", "and uri are both given"]),
        ("challenger: {name: tree, factory: a:b}", ["challenger.factory", "and name are both given"]),
        (
            "challenger: {name: tree, limits: {brier: 2}}",
            ["challenger.limits.brier", "no explainer has this loss; there are cross_entropy"],
        ),
        ("challenger: {name: tree, limits: {cross_entropy: 0}}", ["challenger.limits.cross_entropy"]),
        ("challenger: {name: tree, task: binary}", ["challenger.task"]),
        (
            "challenger: {name: tree, classes: [a, b]}",
            ["challenger.classes", "describes the file of challenger.uri, which is not set"],
        ),
        (
            "explainers: [{kind: ipfi, by: c}]\nrecord: {features: [a, b]}",
            ["'c' is not among record.features"],
        ),
        ("explainers: [{kind: ipfi, by: a, segments: 0}]", ["explainers.0.segments"]),
        ("alarms: {enabled: true, subjects: [segments]}", ["has segments, and no", "set explainers.by"]),
        (
            "alarms: {enabled: true, subjects: [segment_importance]}",
            ["has segment_importance, and no explainer has segments; set explainers.by"],
        ),
        (
            "alarms: {enabled: true, subjects: [estimated_loss]}",
            ["alarms.subjects", "estimated_loss needs the estimate; set explain.estimated_loss"],
        ),
        (
            "explain: {estimated_loss: true}",
            ["explain.estimated_loss", "set record.unlabelled to predict"],
        ),
        ("drift: {on_alarm: true}\nalarms: {enabled: true}", ["drift.enabled is false"]),
        ("drift: {enabled: true, on_alarm: true}", ["set alarms.enabled, with more than rejected"]),
        (
            "drift: {enabled: true, on_alarm: true}\nalarms: {enabled: true, subjects: [rejected]}",
            ["set alarms.enabled, with more than rejected"],
        ),
        (
            "drift: {enabled: true, on_alarm: true, period: 60}\nalarms: {enabled: true}",
            ["with drift.on_alarm there are none"],
        ),
        ("partial_dependence: {features: [a, a]}", ["partial_dependence.features", "'a' twice"]),
        (
            "partial_dependence: {features: [z]}\nrecord: {features: [a]}",
            ["'z' is not among record.features"],
        ),
        ("partial_dependence: {top: 1}\nmodel: {task: multiclass}", ["name the class"]),
        ("partial_dependence: {top: 1, label: up}\nmodel: {task: regression}", ["'up' is a class"]),
        ("predictions: {enabled: true, where: {a: []}}", ["predictions.where.a", "has no values"]),
        (
            "predictions: {enabled: true, label: up}\nmodel: {task: regression}",
            ["predictions.label", "'up' is a class"],
        ),
        ("predictions: {top: 101}", ["predictions.top"]),
        ("record: {features: [a, p], prediction: p}", ["'p' is also among"]),
        ("record: {where: {a: []}}", ["name at least one"]),
        ("record: {where: {'schema:id': [1]}}", ["schema:name"]),
        ("record: {where: {'header:': [1]}}", ["names nothing"]),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    message = _refusal(config=_file(tmp_path, text))
    assert len(message.splitlines()) == 1
    for word in words:
        assert word in message


def test_several_contradictions_are_listed_together(tmp_path: Path) -> None:
    text = "explainers: [{kind: ipfi, losses: [squared]}, {kind: ipfi, losses: [huber]}]"
    assert len(_refusal(config=_file(tmp_path, text)).splitlines()) == 3


@pytest.mark.parametrize("key", OWNED_KEYS)
def test_kafka_properties_that_the_service_owns_are_refused(key: str) -> None:
    message = _refusal({"EXPLAIN_KAFKA__CONFIG": f'{{"{key}": "x"}}'})
    assert f"kafka.config.{key}" in message and OWNED_KEYS[key] in message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "kafka: {config: {sasl.password: [hunter2]}}"),
        ("a.yaml", "kafka:\n  config:\n    sasl.password: 'hunter2\n"),
        ("a.yaml", "kafka: {config: {sasl.password: *hunter2}}"),
        ("a.yaml", "kafka: {config: sasl.password=hunter2}"),
        ("a.yaml", "kafka: hunter2"),
        ("a.yaml", "http: {token: [hunter2]}"),
        ("a.yaml", "registry: {url: 'http://me:hunter2@registry:8081'}"),
        ("a.yaml", "registry: {config: {basic.auth.user.info: [hunter2], url: hunter2}}"),
        ("a.yaml", "tracing: {endpoint: 'http://me:hunter2@collector:4318'}"),
        ("a.yaml", "model: {params: [hunter2]}"),
        ("a.yaml", "models: {uris: 'http://me:hunter2@host/model'}"),
        ("EXPLAIN_MODEL", "hunter2"),
        ("a.toml", '[kafka.config]\n"sasl.password" = hunter2'),
        ("environment", '{"sasl.password": "hunter2"'),
        ("environment", '["hunter2"]'),
        ("EXPLAIN_REGISTRY__CONFIG", '{"basic.auth.user.info": "me:hunter2"'),
        ("EXPLAIN_KAFKAA__CONFIG", '{"sasl.password": "hunter2"'),
    ],
)
def test_no_error_message_shows_a_secret(tmp_path: Path, name: str, text: str) -> None:
    if not name.startswith("a."):
        message = _refusal({"EXPLAIN_KAFKA__CONFIG" if name == "environment" else name: text})
    else:
        message = _refusal(config=_file(tmp_path, text, name))
    assert "hunter2" not in message


def test_effective_settings_hide_secrets_and_only_these() -> None:
    environ = {
        "EXPLAIN_MODEL__PARAMS": '{"password": "hunter2", "store": {"api_key": "hunter2"}, "n_models": 3}',
        "EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier",
        "EXPLAIN_CHALLENGER__URI": "http://me:hunter2@host/model",
        "EXPLAIN_HTTP__TOKEN": "hunter2",
        "EXPLAIN_KAFKA__CONFIG": '{"sasl.password": "hunter2", "ssl.key.pem": "hunter2", "sasl.username": "me", "sasl.oauthbearer.config": "password=hunter2", "sasl.oauthbearer.token.endpoint.url": "https://idp/token"}',
        "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE": "keys.txt",
        "EXPLAIN_REGISTRY__CONFIG": '{"proxy": "http://me:hunter2@proxy", "basic.auth.user.info": "me:hunter2", "ssl.ca.location": "ca.pem"}',
    }
    settings = load_settings(None, environ)
    assert isinstance(settings.http.token, SecretStr) and settings.http.token.get_secret_value() == "hunter2"
    rows = {row.name: row.value for row in effective(settings, None, environ)}
    assert "hunter2" not in str(rows)
    assert rows["kafka.config.sasl.oauthbearer.token.endpoint.url"] == "https://idp/token"
    assert rows["registry.config.ssl.ca.location"] == "ca.pem"
    assert rows["model.params.n_models"] == 3 and rows["challenger.uri"] == "http://********@host/model"
    assert rows["kafka.config.sasl.username"] == "me" and rows["checkpoint.hmac_key_file"] == "keys.txt"


def test_a_snapshot_has_no_secret_of_a_model() -> None:
    one, other = (
        load_settings(
            None,
            {
                "EXPLAIN_MODEL__FACTORY": "river.forest:ARFClassifier",
                "EXPLAIN_MODEL__PARAMS": f'{{"n_models": 3, "store": [{{"password": "{word}"}}]}}',
            },
        )
        for word in ("hunter2", "hunter3")
    )
    assert fold_settings(one) == fold_settings(other)
    assert fold_settings(one)["model"]["params"] == {"n_models": 3, "store": [{}]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("emit: {every: 1}\nseed: 1\nemit: {every: 2}\n", "more than once in line 3"),
        ("model: {params: {a: !!binary aGk=}}\n", "is not YAML"),
        ("[" * 5_000, "is not YAML"),
    ],
)
def test_a_file_whose_meaning_is_in_doubt_is_refused(tmp_path: Path, text: str, words: str) -> None:
    assert words in _refusal(config=_file(tmp_path, text))


def test_effective_settings_name_the_source_of_each_value(tmp_path: Path) -> None:
    config = _file(
        tmp_path,
        "emit: {every: 7}\nmodel: {params: {a: 1, b: 2}}\nexplainers: [{kind: ipfi, alpha: 0.1}]\n",
    )
    environ = {
        "EXPLAIN_MODEL__PARAMS__B": "3",
        "EXPLAIN_KAFKA__CONFIG": '{"a.b": 1}',
        "EXPLAIN_EXPLAINERS": '[{"kind": "isage", "reservoir": {"size": 9}}]',
    }
    settings = load_settings(config, environ)
    source = {row.name: row.source for row in effective(settings, config, environ)}
    assert source["emit.every"] == source["model.params.a"] == f"file {config}"
    assert source["model.params.b"] == "environment EXPLAIN_MODEL__PARAMS__B"
    assert source["kafka.config.a.b"] == "environment EXPLAIN_KAFKA__CONFIG"
    assert (
        source["explainers.0.kind"]
        == source["explainers.0.reservoir.size"]
        == "environment EXPLAIN_EXPLAINERS"
    )
    assert source["seed"] == source["explainers.0.reservoir.kind"] == "default"
    assert source["explainers.0.alpha"] == "default"  # the list of the file is replaced as a whole


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "a: [1", "not YAML"),
        ("a.yaml", "- 1", "mapping"),
        ("a.yaml", "1: 2", "mapping"),
        ("a.toml", "a = ", "not TOML"),
        ("a.ini", "", ".yaml"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    message = _refusal(config=_file(tmp_path, text, name))
    assert name in message and words in message


def test_missing_file_and_bad_json_are_named(tmp_path: Path) -> None:
    assert "absent.yaml" in _refusal(config=tmp_path / "absent.yaml")
    message = _refusal({"EXPLAIN_MODEL__PARAMS": "{n_models: 10}", "EXPLAIN_EXPLAINERS": "[1,"})
    assert "EXPLAIN_MODEL__PARAMS: it is not JSON" in message and "EXPLAIN_EXPLAINERS" in message


def test_missing_brokers_are_reported_with_the_variable_to_set() -> None:
    with pytest.raises(SettingsError, match="EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"):
        _ = Settings().servers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "http: {port: 9000}",
            "http.port: nothing comes of it while http.enabled is false; set that to true",
        ),
        ("alarms: {one_in: 5000, season: day}", "alarms.one_in, alarms.season: nothing"),
        ("http: {port: 9000, enabled: false}", ""),
        ("http: {port: 9000, enabled: true}", ""),
        ("emit: {every: 5}", ""),
        ("emit: {every: 1000}", ""),
        ("emit: {every: 5000}", "emit.periods: a period ends with a message, and one comes every 5000 records (emit.every), so that a period of 1000 has 5000"),
        ("emit: {every: 5000, periods: [day, all]}", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_named(tmp_path: Path, text: str, words: str) -> None:
    assert "; ".join(load_settings(_file(tmp_path, text), {}).warnings).startswith(words)
    assert bool(load_settings(_file(tmp_path, text), {}).warnings) == bool(words)


def test_every_setting_has_a_description() -> None:
    settings = [path for path, _ in walk(Settings)]
    assert ("explainers", "*", "reservoir", "size") in settings
    without = [
        path for path, field in walk(Settings) if not (field.description or _is_section(field.annotation))
    ]
    assert without == []


def _is_section(annotation: object) -> bool:
    return (
        isinstance(annotation, type) and annotation.__name__.endswith("Settings") and bool(annotation.__doc__)
    )


JOINED = {"events": {"topic": "e"}, "labels": {"topic": "l"}}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"topics": {"records": "e"}}, ["join.events.topic", "'e'", "topics.records too"]),
        ({"topics": {"drift": "l"}}, ["join.labels.topic", "'l'", "topics.drift too"]),
        ({"app_id": "a", "topics": {"records": "a-join-changelog"}}, ["topics.records", "join's own"]),
        ({"app_id": "a", "join": JOINED | {"labels": {"topic": "a-join-labels"}}}, ["join's own"]),
        ({"record": {"root": "payload.after"}}, ["record.root", "'payload.after'", "beside it"]),
        ({"record": {"framing": "registry"}}, ["record.format", "join.events.format"]),
        ({"join": JOINED | {"unlabelled": 2**70}}, ["join.unlabelled", "1e+21", "64 bits"]),
        ({"join": JOINED | {"unlabelled": 0.5}}, ["join.unlabelled", "0.5", "no class"]),
        (
            {"join": JOINED | {"unlabelled": "no"}, "model": {"task": "regression"}},
            ["join.unlabelled", "'no'"],
        ),
    ],
)
def test_what_does_not_fit_a_join_is_refused(more: dict, words: list[str], tmp_path: Path) -> None:
    config = _file(tmp_path, json.dumps({"join": JOINED} | more))
    with pytest.raises(SettingsError) as refused:
        load_settings(config, {})
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_what_fits_a_join_is_accepted(tmp_path: Path) -> None:
    for unlabelled, task in (
        ("drop", "regression"),
        (0, "regression"),
        (0.5, "regression"),
        ("no", "binary"),
    ):
        given = {"join": JOINED | {"unlabelled": unlabelled}, "model": {"task": task}}
        config = _file(tmp_path, json.dumps(given))
        assert load_settings(config, {}).join.unlabelled == unlabelled
