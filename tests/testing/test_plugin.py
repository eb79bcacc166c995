"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def test_the_fixture_gives_each_test_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient, NewTopic

        def names(kafka):
            return set(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=120).topics)

        def test_one(kafka):
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            admin.create_topics([NewTopic("orders", 1)])["orders"].result(120)
            assert names(kafka) == {"orders"}

        @pytest.mark.kafka(config={"num.partitions": 7})
        def test_another(kafka, kafka_session):
            assert names(kafka) == set()
            assert kafka.port != kafka_session.port
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=2)


def test_a_cluster_is_a_fixture_with_faults(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka.admin import AdminClient, NewTopic

        @pytest.mark.kafka(nodes=1, config={"num.partitions": 3})
        def test_one_node(kafka_cluster):
            assert len(kafka_cluster) == 1
            admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
            admin.create_topics([NewTopic("orders")])["orders"].result(120)
            assert len(admin.list_topics("orders", timeout=120).topics["orders"].partitions) == 3
            kafka_cluster[0].kill()
            kafka_cluster.heal()
            assert "orders" in admin.list_topics(timeout=120).topics

        def test_three_nodes(kafka_cluster):
            admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
            admin.create_topics([NewTopic("orders")])["orders"].result(120)
            partition = admin.list_topics("orders", timeout=120).topics["orders"].partitions[0]
            assert sorted(partition.replicas) == [1, 2, 3]
            killed = kafka_cluster.leader("orders")
            killed.kill()
            assert kafka_cluster.leader("orders").id != killed.id

        @pytest.mark.kafka({"num.partitions": 3})
        def test_a_marker_without_names(kafka):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the marker kafka takes config={...}, nodes=... and secure=True, by name*"])


def test_workers_of_xdist_have_brokers_of_their_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_a_broker(kafka, kafka_session, number):
            assert kafka.is_running and kafka_session.is_running and kafka.port != kafka_session.port
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=4)


def test_the_plugin_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a_broker(kafka): pass")
    result = pytester.runpytest_subprocess("-p", "no:ottla")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'kafka' not found*"])


def test_the_plugin_imports_nothing_but_itself() -> None:
    """pytest loads the plugin in every run on a machine that has Ottla installed."""
    script = (
        "import sys, pytest; before = set(sys.modules); import ottla.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert loaded.stdout.split() == ["ottla", "ottla.testing", "ottla.testing.plugin"]


def test_brokers_do_not_need_pytest() -> None:
    script = (
        "import sys; sys.modules['pytest'] = None; from ottla.testing import Broker, Cluster\n"
        "with Broker() as broker, Cluster(nodes=1) as cluster: print(broker.port != cluster[0].port)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "True"
