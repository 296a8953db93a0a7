"""The laws of `kbforge_lab.suites.plan`, as tests of one suite; `test_laws.py` tests ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from kbforge_lab.suites import make_suite
from kbforge_lab.suites.plan import TASK_NAME, Method, SuitePlan


class SuiteLaws:
    """A comparison that can be run: whole, unambiguous, and only about what it declares."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}

    def make(self) -> Any:
        """The suite."""
        return make_suite(self.name, self.options)

    def plans(self) -> Iterator[SuitePlan]:
        """The whole plan and the quick one."""
        yield self.make().plan()
        yield self.make().plan(quick=True)

    def test_same_options_same_plan(self) -> None:
        assert list(self.plans()) == list(self.plans())

    def test_a_quick_plan_runs_no_longer(self) -> None:
        whole, quick = self.plans()
        assert _longest(quick) <= _longest(whole)

    def test_every_fragment_is_labelled_and_has_an_id_of_its_own(self) -> None:
        for plan in self.plans():
            for task in plan.tasks:
                assert task.fragments
                assert all(fragment.label for fragment in task.fragments)
                everything = (*task.fragments, *task.examples)
                assert len({fragment.id for fragment in everything}) == len(everything)
                assert all(fragment.label for fragment in task.examples)

    def test_orders_are_orders_of_the_fragments(self) -> None:
        for plan in self.plans():
            for task in plan.tasks:
                for order in task.orders:
                    assert sorted(order) == list(range(len(task.fragments)))

    def test_names_are_unambiguous(self) -> None:
        for plan in self.plans():
            tasks = [task.name for task in plan.tasks]
            assert len(set(tasks)) == len(tasks) > 0
            table = [method.name for method in plan.methods]
            assert len(set(table)) == len(table) > 0
            settings = [_setting(method) for method in (*plan.methods, *plan.sweeps)]
            assert len(set(settings)) == len(settings)
            assert not any("|" in name for name in (*tasks, *table))
            assert all(TASK_NAME.fullmatch(name) for name in tasks)

    def test_expectations_and_published_figures_are_about_the_plan(self) -> None:
        for plan in self.plans():
            tasks = {task.name for task in plan.tasks}
            methods = {method.name for method in plan.methods}
            assert plan.reference in methods
            for wanted in plan.expectations:
                assert wanted.task in tasks
                assert {wanted.method, *wanted.no_worse_than} <= methods
            for task, method in plan.published:
                assert task in tasks
                assert method in methods

    def test_groupers_and_examples_come_together(self) -> None:
        for plan in self.plans():
            assert {bool(task.examples) for task in plan.tasks} == {plan.of_examples}
            methods = (*plan.methods, *plan.sweeps)
            assert {method.grouper is not None for method in methods} == {plan.of_examples}
            groupers = [repr(method.grouper) for method in plan.methods if method.grouper]
            assert len(set(groupers)) == len(groupers)

    def test_a_surrogate_is_only_asked_for_where_there_is_one(self) -> None:
        for plan in self.plans():
            if any(method.surrogate for method in (*plan.methods, *plan.sweeps)):
                assert all(task.surrogate is not None for task in plan.tasks)


def _longest(plan: SuitePlan) -> float:
    """The most seconds that the plan can take."""
    return len(plan.tasks) * sum(
        (method.shuffles or plan.shuffles) * (method.seconds or plan.seconds)
        for method in (*plan.methods, *plan.sweeps)
    )


def _setting(method: Method) -> tuple[object, ...]:
    return (method.name, method.particles, method.surrogate, method.max_evals)
