"""How long tests wait before they call something hung. A limit in a test is what an idle machine
may take at most, as in tests/CMakeLists.txt; a busy one has ten times that.
"""
# SPDX-License-Identifier: Apache-2.0
BUSY = 10
