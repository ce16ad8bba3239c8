"""Protobuf schemas of tests, and the classes that Google's own compiler makes of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from onefold.dataset.protobuf_schema import compile_texts, schema_text

OLD = """
syntax = "proto2";
package old;
enum Size { SMALL = 1; LARGE = 2; ALSO_LARGE = 2; option allow_alias = true; }
message Box {
  required int32 n = 1;
  optional Size size = 2 [default = LARGE];
  repeated int64 packed = 3 [packed = true];
  repeated int64 loose = 4;
  optional group Inner = 5 { optional string text = 1; optional Inner2 deeper = 2; }
  message Inner2 { repeated group More = 1 { optional bool yes = 1; } }
  enum Zeroed { NONE = 0; SOME = 4; }
  map<int32, Zeroed> sizes = 6;
  extensions 100 to 200;
}
extend Box { optional string added = 100; }
"""
NEW = """
edition = "2023";
package new;
message Point {
  int32 x = 1 [features.field_presence = IMPLICIT];
  int32 y = 2;
  Point next = 3 [features.message_encoding = DELIMITED];
}
"""
EVERY = """
syntax = "proto3";
package shop;
import "old.proto";
import "new/point.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
enum State { OPEN = 0; PAID = 1; MINUS = -1; }
message Every {
  double a_double = 1; float a_float = 2; int32 an_int32 = 3; int64 an_int64 = 4; uint32 a_uint32 = 5;
  uint64 a_uint64 = 6; sint32 a_sint32 = 7; sint64 a_sint64 = 8; fixed32 a_fixed32 = 9; fixed64 a_fixed64 = 10;
  sfixed32 a_sfixed32 = 11; sfixed64 a_sfixed64 = 12; bool a_bool = 13; string a_string = 14; bytes some_bytes = 15;
  State state = 16;
  optional int32 perhaps = 17;
  repeated string texts = 18; repeated sint32 numbers = 19; repeated State states = 20; repeated double doubles = 21;
  map<string, int64> counts = 22; map<bool, string> flags = 23; map<sint64, new.Point> points = 24;
  oneof choice { string text = 25; old.Box chosen = 26; int32 number = 27; }
  old.Box box = 28;
  new.Point point = 29;
  google.protobuf.Timestamp at = 30;
  google.protobuf.Duration took = 31;
  google.protobuf.Int64Value wrapped = 32; google.protobuf.StringValue wrapped_text = 33;
  google.protobuf.BytesValue wrapped_bytes = 34; google.protobuf.DoubleValue wrapped_double = 35;
  google.protobuf.BoolValue wrapped_bool = 36; google.protobuf.UInt64Value wrapped_uint64 = 37;
  google.protobuf.FloatValue wrapped_float = 38; google.protobuf.Int32Value wrapped_int32 = 39;
  google.protobuf.UInt32Value wrapped_uint32 = 40;
  google.protobuf.Struct object = 41; google.protobuf.Value anything = 42; google.protobuf.ListValue list = 43;
  google.protobuf.Any any = 44;
  Every self = 45;
  repeated old.Box boxes = 46;
  repeated google.protobuf.Timestamp times = 47;
}
"""
TEXTS = {"every.proto": EVERY, "old.proto": OLD, "new/point.proto": NEW}


@cache
def described() -> bytes:
    """The descriptors of `TEXTS`."""
    return compile_texts(TEXTS, "every.proto")


@cache
def schema_of(message: str) -> str:
    """The text of the schema of one of their messages."""
    return schema_text(described(), message)


@cache
def class_of(message: str) -> Any:
    """The class that Google's library has of one of their messages."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(described()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(message))


@cache
def schema_from(text: str, message: str | None = None) -> str:
    """The text of the schema of a message of one `.proto` text."""
    return schema_text(compile_texts({"m.proto": text}, "m.proto"), message, "m.proto")
