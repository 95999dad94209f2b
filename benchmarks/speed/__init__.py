"""What the speed benchmarks compare with."""

from benchmarks.speed._sign_systems import sign_system_rows as sign_system_rows
from benchmarks.speed._sign_table import several_heads as several_heads
from benchmarks.speed._sign_table import table_entries as table_entries
from benchmarks.speed._two_layer import two_layer_at_its_length as two_layer_at_its_length
from benchmarks.speed._two_layer import two_layer_rows as two_layer_rows
