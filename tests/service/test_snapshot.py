"""Snapshots: what is stored continues exactly; what was altered, or is not ours, is refused before it is loaded."""

import hashlib
import pickle
import random
import tracemalloc

import msgspec
import pytest

from explain_core.packing import packed
from explain_core.smoothing import SmootherState
from explain_core.state import states_in
from explain_sidecar.commands.key import new, show
from explain_sidecar.errors import SettingsError, SnapshotError, UserError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.partition import PartitionData
from explain_sidecar.settings import Settings
from explain_sidecar.settings.checkpoint import CheckpointSettings
from explain_sidecar.snapshots import snapshot as snapshots
from explain_sidecar.snapshots.signatures import Keys, check_trust, read_keys
from explain_sidecar.snapshots.snapshot import (
    CHUNK_BYTES,
    Manifest,
    Snapshot,
    begin,
    decode,
    encode,
    load,
    take,
)
from tests.folds import fold, new_state, settings, values
from tests.folds import restored as decoded
from tests.models import Majority


def taken(state, known):
    return take(state, known.app_id, "records", "topic-id", fold_settings(known))


def restored(state, known):
    snapshot = taken(state, known)
    return load(snapshot.model_copy(update={"trusted": True}), known)


def test_explainers_of_a_restored_state_share_their_model_and_reservoir():
    state = new_state()
    fold(state, values(30))
    other = restored(state, settings())
    first, second = other.explained.explainers.values()
    assert first.model is second.model is other.explained.model
    assert first.reservoir is second.reservoir is next(iter(other.explained.reservoirs.values()))


class Unstorable(Majority):
    """Holds what cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.clean = lambda x: x


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (f"{__name__}:Unstorable", r"cannot be stored: .*lambda.*must be picklable"),
    ],
)
def test_a_model_that_could_not_be_restored_is_refused_before_its_first_record(factory, words):
    with pytest.raises(SnapshotError, match=words):
        begin(settings(model={"factory": factory}), 0)


# --- the manifest and its chunks -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """A state whose snapshot takes several chunks."""
    state = new_state()
    fold(state, values(40))
    state.notices.append(random.Random(0).randbytes(CHUNK_BYTES).hex())
    return state


@pytest.fixture
def stored(large):
    return taken(large, settings())


def with_manifest(stored, **changes):
    return Snapshot(manifest=stored.manifest.model_copy(update=changes), chunks=stored.chunks)


def test_a_manifest_says_what_its_chunks_hold(large, stored):
    manifest = Manifest.decode(stored.manifest.encode())
    packed = b"".join(stored.chunks)
    assert manifest == stored.manifest
    assert manifest.chunk_sizes == [len(chunk) for chunk in stored.chunks]
    assert len(stored.chunks) >= 2 and max(manifest.chunk_sizes) <= CHUNK_BYTES
    assert manifest.sha256 == hashlib.sha256(packed).hexdigest()
    assert manifest.raw_size == len(encode(large)) and stored.size == len(packed)
    assert (manifest.partition, manifest.next_offset, manifest.records, manifest.epoch) == (3, 40, 40, 0)
    assert manifest.fold_digest == large.fold_digest.hex()
    assert manifest.settings == fold_settings(settings())
    assert load(stored, settings()).fold_digest == large.fold_digest


DAMAGES = {
    "a chunk is missing": lambda chunks: chunks[:-1],
    "a chunk is there twice": lambda chunks: [*chunks, chunks[-1]],
    "chunks are swapped": lambda chunks: [chunks[1], chunks[0], *chunks[2:]],
    "a chunk is cut": lambda chunks: [chunks[0][:-1], *chunks[1:]],
    "a bit is turned": lambda chunks: [bytes([chunks[0][0] ^ 1]) + chunks[0][1:], *chunks[1:]],
    "bytes moved to the next chunk": lambda chunks: [chunks[0][:-1], chunks[0][-1:] + chunks[1], *chunks[2:]],
    "there is none": lambda chunks: [],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_chunks_that_are_not_those_of_the_manifest_are_refused_before_anything_is_loaded(
    stored, damage, monkeypatch
):
    monkeypatch.setattr(snapshots, "decode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(SnapshotError, match=r"partition 3 at offset 40: .*(torn|altered)"):
        load(Snapshot(manifest=stored.manifest, chunks=DAMAGES[damage](stored.chunks)), settings())


@pytest.mark.parametrize("size", [0, 10, 2**31])
def test_a_size_that_is_not_the_content_s_is_refused_before_memory_is_taken(stored, size, monkeypatch):
    monkeypatch.setattr(snapshots, "decode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(SnapshotError, match="its size is not that of the manifest"):
        load(with_manifest(stored, raw_size=size), settings())


def packed_as(stored, packed, raw_size):
    changes = {
        "chunk_sizes": [len(packed)],
        "sha256": hashlib.sha256(packed).hexdigest(),
        "raw_size": raw_size,
    }
    return Snapshot(manifest=stored.manifest.model_copy(update=changes), chunks=[packed])


def test_a_snapshot_that_unpacks_to_more_than_the_limit_is_refused(stored, monkeypatch):
    monkeypatch.setattr(snapshots, "MAX_RAW_BYTES", 1_000_000)
    bomb = packed(bytes(2_000_000))
    assert len(bomb) < 1_000
    with pytest.raises(SnapshotError, match="above 1000000"):
        load(packed_as(stored, bomb, 2_000_000), settings())


def test_a_state_that_has_grown_beyond_what_can_be_restored_is_not_stored(monkeypatch):
    monkeypatch.setattr(snapshots, "MAX_RAW_BYTES", 1_000)
    state = new_state()
    fold(state, values(60))
    with pytest.raises(SnapshotError, match=r"a snapshot at most 1000; nothing was lost.*record\.features"):
        take(state, "app", "records", "id", {})


@pytest.mark.parametrize("packed", [b"", b"text", packed(bytes(1_000))[:-3]])
def test_bytes_that_cannot_be_unpacked_are_refused(stored, packed):
    with pytest.raises(SnapshotError, match=r"snapshot of partition 3: its (bytes|size)"):
        load(packed_as(stored, packed, 1_000), settings())


@pytest.mark.parametrize(
    "raw",
    [
        msgspec.msgpack.encode({"partition": 3}),
        msgspec.msgpack.encode(None),
        b"",
        pickle.dumps({"partition": 3}),
    ],
)
def test_a_snapshot_of_something_else_is_refused(stored, raw):
    with pytest.raises(SnapshotError, match="no state of this version and these settings"):
        load(packed_as(stored, packed(raw), len(raw)), settings())


def test_a_model_of_its_own_code_is_read_from_a_trusted_snapshot_alone():
    known = settings(model={"factory": "tests.models:Majority"})
    state = new_state(model={"factory": "tests.models:Majority"})
    snapshot = taken(state, known)
    assert not snapshot.trusted
    with pytest.raises(SnapshotError, match=r"only its own code can read.*hmac_key_file.*new epoch"):
        load(snapshot, known)
    assert load(snapshot.model_copy(update={"trusted": True}), known).fold_digest == state.fold_digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-1], "JSON"),
        (lambda text: text.replace(b'"checkpoint/4"', b'"checkpoint/x"'), "schema"),
        (lambda text: text.replace(b'"partition":3', b'"partition":-3'), "partition"),
        (lambda text: text.replace(b'"epoch":0,', b""), "epoch"),
        (lambda text: text.replace(b'"sha256":"', b'"sha256":"x'), "sha256"),
        (lambda text: b"[]", "altered: Input should be an object"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_manifest_of_this_version_are_refused(stored, change, words):
    text = stored.manifest.encode()
    assert change(text) != text
    with pytest.raises(SnapshotError, match=f"checkpoint manifest: .*{words}"):
        Manifest.decode(change(text))


@pytest.mark.parametrize("earlier", [b"checkpoint/1", b"checkpoint/3"])
def test_a_snapshot_of_an_earlier_version_is_refused_with_the_remedy(stored, earlier):
    old = stored.manifest.encode().replace(b"checkpoint/4", earlier)
    with pytest.raises(SnapshotError, match=r"an earlier version.*return to that version"):
        Manifest.decode(old)


def test_a_manifest_with_more_than_this_version_knows_is_read(stored):
    more = stored.manifest.encode().replace(b'"records":40', b'"more":1,"records":40')
    assert Manifest.decode(more) == stored.manifest


def test_a_snapshot_of_a_later_version_is_left_to_that_version(stored):
    later = stored.manifest.encode().replace(b"checkpoint/4", b"checkpoint/5")
    with pytest.raises(
        SnapshotError, match=r"later version.*checkpoint/5.*leaves the partition to instances that have it"
    ):
        Manifest.decode(later)
    with pytest.raises(SnapshotError, match=r"later version.*SmootherState: version 99"):
        load(with_manifest(stored, parts={"explained": {"SmootherState": 99}}), settings())
    raw = msgspec.msgpack.encode({**msgspec.msgpack.decode(encode(new_state())), "more": 1})
    with pytest.raises(SnapshotError, match=r"later version.*a part 'more'"):
        decoded(raw, settings())
    plain = msgspec.msgpack.decode(encode(new_state()))
    plain["explained"]["performance"]["more"] = 1
    with pytest.raises(SnapshotError, match=r"later version.*unknown field `more`"):
        decoded(msgspec.msgpack.encode(plain), settings())


def test_a_part_of_an_earlier_version_is_migrated_and_goes_on_alike(large, monkeypatch):
    known, given = settings(), values(60)
    whole = new_state()
    expected = fold(whole, given)
    state = new_state()
    found = fold(state, given[:40])
    plain = msgspec.msgpack.decode(encode(state))
    for cells in [
        plain["explained"]["performance"]["values"],
        *(of["values"] for of in plain["explained"]["explainers"].values()),
    ]:
        cells["all"] = [cells.pop("cells"), cells.pop("sums")]
    monkeypatch.setattr(SmootherState, "VERSION", 3)
    monkeypatch.setattr(
        SmootherState,
        "MIGRATIONS",
        {
            1: lambda old: {"both": old["all"]},
            2: lambda old: {"cells": old["both"][0], "sums": old["both"][1]},
        },
    )
    again = decode(msgspec.msgpack.encode(plain), known, 3, 0, bytes, {})
    assert found + fold(again, given[40:]) == expected
    assert taken(again, known).manifest.parts["explained"] == {"SmootherState": 3}


def test_a_learner_of_an_earlier_version_of_its_family_is_migrated(monkeypatch):
    state = new_state()
    found = fold(state, values(60)[:40])
    raw, kind = encode(state), type(state.explained.model)
    monkeypatch.setattr(kind, "version", 2)
    monkeypatch.setattr(kind, "migrations", {1: lambda old: msgspec.structs.replace(old, version=2)})
    again = decoded(raw, settings())
    assert again.explained.model.state().version == 2
    assert found + fold(again, values(60)[40:]) == fold(new_state(), values(60))
    newer = encode(again)
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match=rf"later version.*the {kind.kind} learner: version 2"):
        decoded(newer, settings())


def test_a_part_that_was_not_there_yet_is_as_at_the_beginning():
    plain = msgspec.msgpack.decode(encode(new_state()))
    del plain["skipped"], plain["label_delay"]
    assert decoded(msgspec.msgpack.encode(plain), settings()).skipped == 0


def test_each_class_of_states_has_a_name_of_its_own():
    """Versions are by name."""
    names = [kind.__name__ for kind in states_in(PartitionData)]
    assert len(names) == len(set(names)) > 20


def test_a_manifest_is_accepted_under_any_of_the_keys_and_refused_without_one():
    value, keys = b"manifest", Keys((b"new key", b"old key"))
    keys.check(value, keys.sign(value))
    keys.check(value, Keys((b"old key",)).sign(value))
    foreign = (Keys((b"another",)).sign(value), keys.sign(b"manifesto"), b"")
    for signature in (None, *foreign):
        with pytest.raises(SnapshotError, match="signature"):
            keys.check(value, signature)
        assert not Keys().check(value, signature)
    assert Keys().sign(value) is None


def test_unsigned_manifests_are_accepted_where_the_setting_says_so_but_vouch_for_no_code():
    value, both = b"manifest", Keys((b"key",), allow_unsigned=True)
    assert not both.check(value, None)
    assert both.check(value, both.sign(value))
    with pytest.raises(SnapshotError, match="fits none of the keys"):
        both.check(value, Keys((b"another",)).sign(value))
    without_key = Keys(allow_unsigned=True)
    for signature in (None, both.sign(value), b""):
        assert not without_key.check(value, signature)


def test_a_snapshot_of_another_key_names_both_by_their_fingerprints():
    ours, theirs = Keys((b"ours" * 8,)), Keys((b"theirs" * 8,))
    value = b'{"key":"%s"}' % (theirs.fingerprint or "").encode()
    with pytest.raises(
        SnapshotError, match=rf"\({ours.fingerprint}\); it names the key {theirs.fingerprint}"
    ):
        ours.check(value, theirs.sign(value))
    with pytest.raises(SnapshotError, match="it names no key"):
        ours.check(b'{"key":"\x1b[31m"}', b"")


def test_a_new_key_is_its_owners_alone_signs_and_overwrites_none(tmp_path, capsys):
    file = tmp_path / "snapshot.keys"
    new(file)
    said = capsys.readouterr().err
    keys = read_keys(CheckpointSettings(hmac_key_file=file))
    assert file.stat().st_mode & 0o777 == 0o600 and said == f"fingerprint {keys.fingerprint}\n"
    with pytest.raises(UserError, match="exists, and the keys in it may be in use"):
        new(file)
    show(Settings(checkpoint={"hmac_key_file": file}))
    assert capsys.readouterr().out == f"{keys.fingerprint}  signs\n"
    with pytest.raises(UserError, match="snapshots are not signed"):
        show(Settings())


def test_without_a_key_foreign_code_does_not_start(tmp_path):
    without = read_keys(CheckpointSettings())
    check_trust(without, None)
    with pytest.raises(SettingsError, match=r"explain-sidecar key new .*HMAC_KEY_FILE="):
        check_trust(without, "the model (Own)")
    with pytest.raises(SettingsError, match="key new"):
        check_trust(Keys(allow_unsigned=True), "the model (Own)")
    check_trust(Keys((b"a key of sixteen",)), "the model (Own)")
    assert read_keys(CheckpointSettings(allow_unsigned=True)) == Keys(allow_unsigned=True)
    file = tmp_path / "keys"
    file.write_text("a-key-that-signs-from-now\n\nthe-key-of-yesterday\n")
    for allow in (False, True):
        keys = read_keys(CheckpointSettings(hmac_key_file=file, allow_unsigned=allow))
        assert keys == Keys((b"a-key-that-signs-from-now", b"the-key-of-yesterday"), allow)
        assert "signs" not in repr(keys)
    for text in ("", "too-short\n"):
        file.write_text(text)
        with pytest.raises(UserError, match=r"checkpoint\.hmac_key_file: .* 16 characters"):
            read_keys(CheckpointSettings(hmac_key_file=file))
    with pytest.raises(UserError, match=r"checkpoint\.hmac_key_file: .*No such file"):
        read_keys(CheckpointSettings(hmac_key_file=tmp_path / "none"))


@pytest.mark.parametrize("kind", ["river.linear_model:LinearRegression", "river.tree:HoeffdingTreeRegressor"])
def test_a_regression_on_the_largest_numbers_is_stored_and_restored_after_each_record(kind):
    sections = {"task": "regression", "model": {"factory": kind}, "explain": {"warm_up": 1}}
    state, known = new_state(**sections), settings(**sections)
    for i in range(70):
        large = 10.0 ** (30 - i % 31)
        fold(state, [{"a": (-1.0) ** i / large, "b": 1e30 * (i % 2), "label": -large}])
        state = restored(state, known)
    assert state.records == 70


def test_versions_that_never_were_are_refused_and_take_no_memory(stored, monkeypatch):
    for version in (0, -1, -(2**40)):
        with pytest.raises(SnapshotError, match="versions begin with 1"):
            load(with_manifest(stored, parts={"explained": {"SmootherState": version}}), settings())
    plain = msgspec.msgpack.decode(encode(new_state()))
    plain["explained"]["model"]["learner"]["version"] = 0
    with pytest.raises(SnapshotError, match="versions begin with 1"):
        decoded(msgspec.msgpack.encode(plain), settings())
    # As plain data, each of these bytes would be a list.
    plain["explained"] = [[]] * 1_000_000
    raw = msgspec.msgpack.encode(plain)
    tracemalloc.start()
    with pytest.raises(SnapshotError, match="no state"):
        decode(raw, settings(), 3, 0, bytes, {"explained": {"NoState": 1}})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_a_migration_that_cannot_read_a_state_refuses_it(monkeypatch):
    raw = encode(new_state())
    monkeypatch.setattr(SmootherState, "VERSION", 2)
    monkeypatch.setattr(SmootherState, "MIGRATIONS", {1: lambda old: {"cells": old["gone"]}})
    with pytest.raises(SnapshotError, match="no state of an earlier version: KeyError: 'gone'"):
        decode(raw, settings(), 3, 0, bytes, {})
