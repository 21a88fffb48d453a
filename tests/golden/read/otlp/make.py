#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write the inputs of these goldens with OpenTelemetry's own definitions, from the recordings of ../pprof.

    python3 -m venv venv && venv/bin/pip install protobuf
    for version in 1.38.0 1.42.0 1.45.2; do venv/bin/pip install --no-deps --target $version opentelemetry-proto==$version; done
    for version in 1.38.0 1.42.0 1.45.2; do PYTHONPATH=$version venv/bin/python make.py $version; done

opentelemetry-proto of Python 1.38.0 has the definitions of 1.7.0, 1.42.0 those of 1.9.0, 1.45.2 those of 1.11.0.
"""
import gzip
import pathlib
import struct
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
from opentelemetry.proto.profiles.v1development import profiles_pb2 as otlp

HERE = pathlib.Path(__file__).resolve().parent


def fields(data):
    """The fields of a protocol buffer, as (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = varint()
            yield tag >> 3, data[at : at + size]
            at += size


def packed(data):
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    return numbers


def pprof(case):
    """Strings, mappings, functions, locations and samples of a golden of pprof, each row by the numbers of its fields."""
    data = (HERE.parent / "pprof" / case / "input").read_bytes()
    rows = {2: [], 3: [], 4: [], 5: [], 6: []}
    for number, value in fields(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data):
        rows.setdefault(number, []).append(value)
    strings = [text.decode() for text in rows[6]]
    table = lambda number: {row[1]: row for row in (dict(fields(one)) for one in rows[number])}
    locations = {}
    for one in rows[4]:
        row = dict(fields(one))
        lines = [dict(fields(value)) for number, value in fields(one) if number == 4]
        locations[row[1]] = (row.get(2, 0), row.get(3, 0), [line.get(1, 0) for line in lines])
    listed = lambda value: packed(value) if isinstance(value, bytes) else [value]
    every = lambda row, number: [one for field, value in fields(row) if field == number for one in listed(value)]
    samples = [(every(row, 1), every(row, 2)) for row in rows[2]]
    return strings, table(3), table(5), locations, samples


class Dictionary:
    def __init__(self):
        self.out = otlp.ProfilesDictionary()
        self.strings, self.attributes, self.stacks = {}, {}, {}
        self.string("")
        for table in ["mapping", "location", "function", "link", "attribute", "stack"]:
            getattr(self.out, table + "_table").add()

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.out.string_table)
            self.out.string_table.append(text)
        return self.strings[text]

    def attribute(self, key, text, by_index=False):
        if (key, text) not in self.attributes:
            self.attributes[key, text] = len(self.out.attribute_table)
            row = self.out.attribute_table.add(key_strindex=self.string(key))
            if by_index:
                row.value.string_value_strindex = self.string(text)
            else:
                row.value.string_value = text
        return self.attributes[key, text]

    def stack(self, locations):
        if locations not in self.stacks:
            self.stacks[locations] = len(self.out.stack_table)
            self.out.stack_table.add(location_indices=locations)
        return self.stacks[locations]


def convert(case, native):
    """A request with one profile: as an application names its frames, or as a profiler of a host that names none."""
    strings, mappings, functions, locations, samples = pprof(case)
    dictionary, request = Dictionary(), service.ExportProfilesServiceRequest()
    where, which, here = {0: 0}, {0: 0}, {}
    for number, row in mappings.items():
        path, build_id = strings[row.get(5, 0)], strings[row.get(6, 0)]
        attributes = [dictionary.attribute("process.executable.build_id.htlhash", "60" * 16)] if native else []
        if build_id:
            attributes.append(dictionary.attribute("process.executable.build_id.gnu", build_id, native))
        where[number] = len(dictionary.out.mapping_table)
        dictionary.out.mapping_table.add(
            memory_start=row.get(2, 0),
            memory_limit=row.get(3, 0),
            file_offset=row.get(4, 0),
            filename_strindex=dictionary.string(path.rsplit("/", 1)[-1] if native else path),
            attribute_indices=attributes,
        )
    for number, row in functions.items():
        which[number] = len(dictionary.out.function_table)
        dictionary.out.function_table.add(
            name_strindex=dictionary.string(strings[row.get(2, 0)]),
            system_name_strindex=dictionary.string(strings[row.get(3, 0)]),
            filename_strindex=dictionary.string(strings[row.get(4, 0)]),
        )
    for number, (mapping, address, lines) in locations.items():
        here[number] = len(dictionary.out.location_table)
        row = dictionary.out.location_table.add(mapping_index=where[mapping], address=address)
        if native:
            row.attribute_indices.append(dictionary.attribute("profile.frame.type", "native"))
        for function in lines:
            row.lines.add(function_index=which[function])
    resource = request.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "program"
    profile = resource.scope_profiles.add().profiles.add(profile_id=bytes(range(16)), period=10_000_000)
    profile.sample_type.type_strindex = dictionary.string("samples")
    profile.sample_type.unit_strindex = dictionary.string("count")
    thread = dictionary.attribute("thread.name", "worker")
    for stack, values in samples:
        row = profile.samples.add(stack_index=dictionary.stack(tuple(here[one] for one in stack)))
        row.attribute_indices.append(thread)
        if native:
            row.timestamps_unix_nano.extend(1_760_000_000_000_000_000 + 7 * one for one in range(values[0]))
        else:
            row.values.append(values[0])
    request.dictionary.CopyFrom(dictionary.out)
    return request, dictionary


def host():
    """What a profiler of a whole host adds: another type, the kernel, an interpreter, and a second process."""
    request, _ = convert("addresses-alone", True)
    d = request.dictionary
    string = lambda text: d.string_table.append(text) or len(d.string_table) - 1
    frame_type = next(i for i, text in enumerate(d.string_table) if text == "profile.frame.type")

    def location(kind, name, mapping=0, address=0):
        d.attribute_table.add(key_strindex=frame_type).value.string_value = kind
        d.function_table.add(name_strindex=string(name))
        row = d.location_table.add(mapping_index=mapping, address=address)
        row.attribute_indices.append(len(d.attribute_table) - 1)
        row.lines.add(function_index=len(d.function_table) - 1)
        return len(d.location_table) - 1

    kernel, python = location("kernel", "do_syscall_64", 0, 0xFFFFFFFF81000010), location("cpython", "run")
    first = d.stack_table[1].location_indices
    for stack in ([kernel] + list(first), list(first) + [python]):
        d.stack_table.add(location_indices=stack)
    deep = len(d.stack_table)
    process = request.resource_profiles.add().scope_profiles.add()
    profile = process.profiles.add()
    profile.sample_type.CopyFrom(request.resource_profiles[0].scope_profiles[0].profiles[0].sample_type)
    profile.samples.add(stack_index=deep - 2, timestamps_unix_nano=[1, 2])
    profile.samples.add(stack_index=deep - 1, timestamps_unix_nano=[1, 2, 3])
    waiting = process.profiles.add()
    waiting.sample_type.type_strindex, waiting.sample_type.unit_strindex = string("off_cpu"), string("nanoseconds")
    waiting.samples.add(stack_index=1, values=[5000, 70], timestamps_unix_nano=[3, 9])
    return request


def write(case, data):
    (HERE / case).mkdir(exist_ok=True)
    (HERE / case / "input").write_bytes(data)


def main(version):
    if version == "1.38.0":
        request = service.ExportProfilesServiceRequest()
        profile = request.resource_profiles.add().scope_profiles.add().profiles.add()
        profile.sample_type.add(type_strindex=1, unit_strindex=2)
        profile.sample.add(locations_start_index=0, locations_length=1, value=[3])
        profile.location_indices.append(1)
        request.dictionary.string_table.extend(["", "samples", "count", "main"])
        request.dictionary.location_table.add()
        request.dictionary.location_table.add(address=16).line.add(function_index=1)
        return write("older-1.7", request.SerializeToString())
    names = convert("go-processor-time", False)[0].SerializeToString(deterministic=True)
    if version == "1.42.0":
        return write("go-1.9", names)
    write("go-1.11", names)
    data = otlp.ProfilesData.FromString(names)
    write("go-json", json_format.MessageToJson(data, indent=1).encode())
    lines = [json_format.MessageToJson(one, indent=None) for one in (data, host())]
    write("lines-of-json", "".join(line + "\n" for line in lines).encode())
    write("host", gzip.compress(host().SerializeToString(deterministic=True), 9, mtime=0))
    messages = [names, host().SerializeToString(deterministic=True)]
    write("several-messages", b"".join(struct.pack(">I", len(one)) + one for one in messages))
    return None


if __name__ == "__main__":
    main(sys.argv[1])
