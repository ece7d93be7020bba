"""Which unit tests take seconds each, and which start after all others."""

SLOW = (
    "tests/unit/connectors/test_hostile_descriptions.py",
    "tests/unit/connectors/test_limited_imports.py",
    "tests/unit/connectors/test_published_descriptions.py",
    "tests/unit/project_files/test_config_maps.py",
    "tests/unit/cli/",
    "tests/unit/resources/test_misspelt_fields.py",
    "tests/unit/runtime/packages/",
    "tests/unit/runtime/test_sdk_pages.py",
    "tests/unit/runtime/server/test_server.py",
    "tests/unit/scheduling/test_random_failures.py",
    "tests/unit/testing/test_plugin.py",
    "tests/unit/api/http/test_generated_clients.py",
    "tests/unit/api/traces/test_store.py",
    "tests/unit/test_platform_image.py",
)
"""Unit tests that start processes or read large inputs. The others are marked as fast."""

LATE = ("tests/e2e/test_high_availability.py", "tests/e2e/test_least_privilege.py")
"""After all others, in this order: what changes how the platform is deployed, and what judges by what others did."""
