"""Encodes and decodes with Confluent's serializers. The argument is "encode" or "decode".

Each line of stdin is a request in JSON, each line of stdout is its answer.
"""

import base64
import ctypes
import datetime
import decimal
import json
import os
import sys
import tempfile
import uuid

from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as old_decimal_pb2
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc
import grpc_tools

FRAMINGS = {"prefix": prefix_schema_id_serializer, "header": header_schema_id_serializer}


def connect(request):
    """Returns a client that does not repeat failed requests."""
    conf = {"url": request["registry_url"], "max.retries": 0, "timeout": 60}
    if request.get("user"):
        conf["basic.auth.user.info"] = request["user"] + ":" + request.get("password", "")
    return SchemaRegistryClient(conf)


def context_of(request, headers):
    field = MessageField.KEY if request["part"] == "key" else MessageField.VALUE
    return SerializationContext(request["topic"], field, headers)


def b64(raw):
    return None if raw is None else base64.b64encode(raw).decode("ascii")


# Values: a description in JSON becomes a Python object.


def parse_time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


SPECIAL = {
    "$bytes": base64.b64decode,
    "$decimal": decimal.Decimal,
    "$datetime": parse_time,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$float": float,
    "$tuple": lambda pair: (pair[0], build(pair[1])),
}


def build(description):
    """Returns the object that a description means."""
    if isinstance(description, list):
        return [build(item) for item in description]
    if not isinstance(description, dict):
        return description
    if len(description) == 1:
        (name, content), = description.items()
        if name in SPECIAL:
            return SPECIAL[name](content)
    return {name: build(content) for name, content in description.items()}


# References: a schema refers to the ones before it that it names.


def register_references(client, request, kind):
    """Registers the referenced schemas in order and returns the references of the main one."""
    done = []
    for ref in request.get("references") or []:
        used = [r for r in done if mentions(ref["schema"], r.name, kind)]
        schema = Schema(ref["schema"], kind, references=used)
        client.register_schema(ref["subject"], schema)
        found = client.lookup_schema(ref["subject"], schema)
        done.append(SchemaReference(ref["name"], ref["subject"], found.version))
    return done


def mentions(text, name, kind):
    """Reports whether a schema names another one. Within a namespace, Avro names are short."""
    return name in text or (kind == "AVRO" and name.rsplit(".", 1)[-1] in text)


# Protobuf: .proto text becomes a message class.


def known_files():
    """Returns the files of Confluent that a schema may import."""
    files = descriptor_pb2.FileDescriptorSet()
    for module in (descriptor_pb2, meta_pb2, decimal_pb2, variant_pb2, old_decimal_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    return files


def compile_proto(request):
    """Returns the pool with the schema and its imports."""
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        main = "schema.proto"
        write(path("src"), main, request["schema"])
        for ref in request.get("references") or []:
            write(path("src"), ref["name"], ref["schema"])
        with open(path("known"), "wb") as out:
            out.write(known_files().SerializeToString())
        run_protoc(path, main)
        with open(path("compiled"), "rb") as compiled:
            files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


def write(folder, name, text):
    target = os.path.join(folder, *name.split("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as out:
        out.write(text)


def run_protoc(path, main):
    builtin = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
    code = protoc.main([
        "protoc", "-I" + path("src"), "-I" + builtin, "--descriptor_set_in=" + path("known"),
        "--include_imports", "--descriptor_set_out=" + path("compiled"), main,
    ])
    if code != 0:
        raise ValueError("protoc cannot compile the schema")


def build_message(request):
    """Returns a message and the pool of its types."""
    pool = compile_proto(request)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(request["message"]))()
    value = request.get("value")
    if isinstance(value, dict) and list(value) == ["$raw"]:
        message.ParseFromString(base64.b64decode(value["$raw"]))
    elif value is not None:
        json_format.ParseDict(value, message, descriptor_pool=pool)
    return message, pool


# Encoding.


def encode_avro(client, request, conf):
    references = register_references(client, request, "AVRO")
    # The serializer takes the name of a primitive type only as text.
    schema = Schema(request["schema"], "AVRO", references=references) if references else request["schema"]
    return AvroSerializer(client, schema, conf=conf), build(request.get("value"))


def encode_json(client, request, conf):
    schema = Schema(request["schema"], "JSON", references=register_references(client, request, "JSON"))
    return JSONSerializer(schema, client, conf=conf), request.get("value")


def encode_protobuf(client, request, conf):
    subjects = {ref["name"]: ref["subject"] for ref in request.get("references") or []}
    conf["reference.subject.name.strategy"] = lambda _, file: subjects[file.name]
    message, _ = build_message(request)
    return ProtobufSerializer(type(message), client, conf=conf), message


ENCODERS = {"avro": encode_avro, "json": encode_json, "protobuf": encode_protobuf}


def encode(request):
    headers = []
    with connect(request) as client:
        conf = {"schema.id.serializer": FRAMINGS[request.get("framing") or "prefix"]}
        serializer, value = ENCODERS[request["format"]](client, request, conf)
        raw = serializer(value, context_of(request, headers))
    return {"value_base64": b64(raw), "headers": [[name, b64(content)] for name, content in headers]}


# Decoding.


def decode_avro(client, data, ctx, request):
    deserializer = AvroDeserializer(client, return_record_name=True)
    value = deserializer(data, ctx)
    schema_id = SchemaId("AVRO")
    dual_schema_id_deserializer(data, ctx, schema_id)
    writer = deserializer._get_parsed_schema(deserializer._get_writer_schema(schema_id))
    return canonical(value, writer, named_types(writer, {}))


def decode_json(client, data, ctx, request):
    return JSONDeserializer(None, schema_registry_client=client)(data, ctx)


def decode_protobuf(client, data, ctx, request):
    pool = compile_proto(request)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(request["message"]))
    message = ProtobufDeserializer(kind, {}, client)(data, ctx)
    return json.loads(json_format.MessageToJson(message, descriptor_pool=pool))


DECODERS = {"avro": decode_avro, "json": decode_json, "protobuf": decode_protobuf}


def decode(request):
    data = base64.b64decode(request["value_base64"])
    headers = [(name, base64.b64decode(content)) for name, content in request.get("headers") or []]
    with connect(request) as client:
        value = DECODERS[request["format"]](client, data, context_of(request, headers), request)
    return {"value": value}


# The canonical form of Avro values. The schema tells the digits of times.


def named_types(schema, known):
    """Adds the named types of a schema to known."""
    if isinstance(schema, list):
        for branch in schema:
            named_types(branch, known)
    elif isinstance(schema, dict):
        if "name" in schema:
            known[schema["name"]] = schema
        for part in [schema.get("items"), schema.get("values"), schema.get("type")]:
            named_types(part, known)
        for field in schema.get("fields", []):
            named_types(field["type"], known)
    return known


def canonical(value, schema, known):
    schema = resolve(schema, known)
    if isinstance(schema, list):
        return canonical_union(value, schema, known)
    kind = schema["type"]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if kind == "float":
        return shortest(value)
    if kind in ("record", "error") and isinstance(value, dict):
        return {f["name"]: canonical(value[f["name"]], f["type"], known) for f in schema["fields"]}
    if kind == "array":
        return [canonical(item, schema["items"], known) for item in value]
    if kind == "map":
        return {key: canonical(item, schema["values"], known) for key, item in value.items()}
    return canonical_leaf(value, schema.get("logicalType", ""))


def shortest(value):
    """Returns the number with the fewest digits that is the same in 32 bits."""
    numbers = (float(format(value, f".{digits}g")) for digits in range(1, 10))
    return next(n for n in numbers if ctypes.c_float(n).value == value)


def resolve(schema, known):
    """Returns a schema as a dict, or as a list for a union."""
    while True:
        if isinstance(schema, str):
            schema = known.get(schema) or {"type": schema}
        elif isinstance(schema, dict) and not isinstance(schema["type"], str):
            schema = schema["type"]
        elif isinstance(schema, dict) and schema["type"] in known:
            schema = known[schema["type"]]
        else:
            return schema


def canonical_union(value, branches, known):
    branches = [resolve(branch, known) for branch in branches]
    if isinstance(value, tuple):  # the deserializer names the record
        name, value = value
        return canonical(value, next(b for b in branches if b.get("name") == name), known)
    return canonical(value, next(b for b in branches if fits(value, b)), known)


# The Python types of values, by logical types and by types.
LOGICAL = {
    "decimal": decimal.Decimal,
    "uuid": uuid.UUID,
    "date": datetime.date,
    "time-millis": datetime.time,
    "time-micros": datetime.time,
    "timestamp-millis": datetime.datetime,
    "timestamp-micros": datetime.datetime,
    "local-timestamp-millis": datetime.datetime,
    "local-timestamp-micros": datetime.datetime,
}
PLAIN = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float,
    "bytes": bytes, "fixed": bytes, "string": str, "enum": str, "array": list, "map": dict, "record": dict,
}


def fits(value, branch):
    """Reports whether the deserializer makes such a value of the branch."""
    logical = branch.get("logicalType", "")
    kind = LOGICAL.get(logical) or PLAIN[branch["type"]]
    if type(value) is not kind:
        return False
    if kind is datetime.datetime:
        return (value.tzinfo is None) == logical.startswith("local-")
    return kind is not str or branch["type"] != "enum" or value in branch["symbols"]


def canonical_leaf(value, logical):
    digits = "milliseconds" if logical.endswith("millis") else "microseconds"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec=digits) + "Z"
    if isinstance(value, (datetime.datetime, datetime.time)):
        return value.isoformat(timespec=digits)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    return value


def describe(error):
    """Returns the text of an error with its causes."""
    texts = []
    while error is not None:
        texts.append(type(error).__name__ + ": " + str(error))
        error = error.__cause__ or error.__context__
    return " <- ".join(texts)


def main():
    answer = {"encode": encode, "decode": decode}[sys.argv[1]]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin.buffer:
        try:
            text = json.dumps(answer(json.loads(line)), ensure_ascii=True, allow_nan=False)
        except Exception as error:  # every request gets an answer
            text = json.dumps({"error": describe(error)})
        print(text, file=out, flush=True)


main()
