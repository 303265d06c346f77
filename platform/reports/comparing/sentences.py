"""The answer of a report in sentences: a heading, and the numbers behind it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dprl.algorithms import Metric
from dprl.platform.errors import counted
from dprl.platform.reports.cell_texts import (
    algorithm_name,
    environment_keys,
    environment_name,
    environment_text,
    setting_text,
    trust_word,
)
from dprl.platform.reports.comparing.findings import Budget, Finding, Rival, findings_of, other_clipping, rival_of
from dprl.platform.reports.comparing.groups import Group
from dprl.platform.reports.comparing.noise import noise_clause, schedule_remedy
from dprl.platform.reports.inference.effects import Effect, Estimate
from dprl.platform.reports.inference.intervals import FEWEST_SEEDS
from dprl.platform.reports.number_texts import delta_number, effect_text, epsilon_text, estimate_text, rounded
from dprl.platform.reports.records import is_gap, results_in

NO_TEST = f"fewer than {FEWEST_SEEDS} seeds: no test"
MIXED = "algorithm and noise differ"
_PRESET = "algorithm.preset"
_EXTREME = {"low": "lowest", "high": "highest"}
_USES_BUDGET = 0.9
_MOST_NAMED = 2
"""Most algorithms named in a clause on noise; of more it has the number."""
_LONGEST = 35
"""Longest list of environments in a sentence, in characters; of longer ones it has the number."""


def _model_text(model: str) -> str:
    """Return a trust model in words, e.g. 'central privacy'."""
    return "no privacy" if model == "none" else f"{trust_word(model)} privacy"


def budget_text(budget: Budget, *, with_delta: bool) -> str:
    """Return a budget in words, e.g. 'central privacy, certified \u03b5 \u2264 3, \u03b4 \u2264 10\u207b\u2076'."""
    if budget.model == "none":
        return _model_text(budget.model)
    text = f"{_model_text(budget.model)}, certified \u03b5 \u2264 {epsilon_text(budget.epsilon, 4)}"
    sign = "\u2264" if budget.delta else "="
    return f"{text}, \u03b4 {sign} {delta_number(budget.delta)}" if with_delta else text


def rival_text(group: Group, rival: Rival) -> str:
    """Return a rival's comparison with the best cell: the effect and its test, or the reason for having none."""
    return f"{group.names[rival.place]}: {comparison_text(rival)}"


def comparison_text(rival: Rival) -> str:
    """Return the effect of a rival against the best cell and its test, without names."""
    if rival.effect is None:
        return f"{MIXED}{rival.noise}"
    own = "algorithm" if "algorithm" in rival.differs_in else "noise"
    others = [factor for factor in rival.differs_in if factor != own]
    unlike = f"; other {' and '.join(others)}" if others else ""
    return f"{effect_text(rival.effect)} ({_significance_text(rival)}{unlike}){rival.noise}"


def _significance_text(rival: Rival) -> str:
    """Return the result of a rival's test in words."""
    if rival.significant is None:
        return NO_TEST if rival.declared else "no test declared"
    p_value = "p < 0.001" if rival.p_value < 0.001 else f"p = {rival.p_value:.2g}"
    return f"significant, {p_value}" if rival.significant else f"no significant difference, {p_value}"


def heading(groups: Sequence[Group]) -> str:
    """Return the answer of the report in one sentence, '' if no group has a headline."""
    told = _private(groups)
    if not told:
        return _without_budgets(groups)
    metric = told[0].group.metric
    what = f"{_EXTREME[metric.better]} {metric.label}" if metric is not None else ""
    if all(each.cell.unlearned for each in told):
        return "Nothing was learned at any certified privacy budget"
    names = {algorithm_name(cell.row) for each in told for cell in each.group.cells if cell.private}
    if len(names) == 1:
        return _of_one_algorithm(told)
    return _of_several(told, what)


def lead(groups: Sequence[Group]) -> list[str]:
    """Return the sentences below the heading: the numbers at one budget, tests, and their limits."""
    told = _private(groups)
    if not told:
        return [*_requested(groups), *_mapped(groups)]
    chosen = _at_one_budget(told)
    alike = len({each.algorithm for each in chosen}) == 1
    clauses = [_clause(each, named=i == 0 or not alike) for i, each in enumerate(chosen)]
    epsilon = epsilon_text(chosen[0].budget.epsilon, 4)
    estimates = [each.cell.estimate for each in chosen]
    words = [chosen[0].group.title] if len(groups) > 1 else []
    words += ["geometric means over seeds"] if any(each.scale == "log" for each in estimates) else []
    words += ["95% intervals"] if any(each.has_interval for each in estimates) else []
    where = f" ({', '.join(words)})" if words else ""
    sentences = [f"At certified \u03b5 \u2264 {epsilon}, {', and '.join(clauses)}{where}."]
    return [
        *_output_policies(chosen),
        *sentences,
        *_tests(told),
        *_presets(told),
        *_mixed(chosen),
        *_requested(groups),
        *_mapped(groups),
        *_failed(told),
    ]


def headline_finding(groups: Sequence[Group]) -> Finding | None:
    """Return the finding that represents a report: that of the first trust model at the budget of the lead."""
    told = _private(groups)
    return _at_one_budget(told)[0] if told else None


def _private(groups: Sequence[Group]) -> list[Finding]:
    """Return the findings with privacy of the groups that share the first headline."""
    told = [found for group in groups for found in findings_of(group)]
    private = [each for each in told if each.best is not None and each.budget.model != "none"]
    return [each for each in private if each.group.metric == private[0].group.metric]


def _without_budgets(groups: Sequence[Group]) -> str:
    """Return the heading of a report without a cell that certifies a finite epsilon."""
    if any(cell.private for group in groups if group.metric is not None for cell in group.cells):
        return "No cell certifies a finite \u03b5"
    free = [found for group in groups for found in findings_of(group) if found.best is not None]
    tested, leads = _leads(free)
    if tested and not leads:
        return "No algorithm is significantly best without privacy"
    if tested and leads.total() < len(free):
        return _partly(free, "in", f"{len(free)} environments without privacy")
    winners = {each.algorithm for each in free}
    if len(winners) != 1:
        return "The best algorithm without privacy depends on the environment" if winners else ""
    metric = free[0].group.metric
    what = f"{_EXTREME[metric.better]} {metric.label}" if metric is not None else ""
    several = any(each.others for each in free)
    return f"{winners.pop()} {f'has the {what} ' if several else ''}without privacy"


def _of_one_algorithm(told: Sequence[Finding]) -> str:
    each = _at_one_budget(told)[0]
    budget, cost = each.budget, each.cost
    at = f"{each.algorithm} at certified \u03b5 \u2264 {epsilon_text(budget.epsilon, 4)} ({_model_text(budget.model)})"
    if any(one.group is not each.group for one in told):
        at += f" on {each.group.title}"
    if _gaps(each):
        row = each.cell.row
        return f"{at}: {', '.join(f'{metric.label} {rounded(row[metric.name], 2)}' for metric in _gaps(each))}"
    if cost is None or cost.scale != "log":
        return f"{at}: {_amount(each).removeprefix('has ').removeprefix('a ')}"
    metric = each.group.metric
    return f"{at}: {_times(cost.value)} its {metric.label if metric else ''} without privacy"


def _of_several(told: Sequence[Finding], what: str) -> str:
    """Return the heading for several algorithms; it names one as best at every budget only if all leads are tested."""
    tested, leads = _leads(told)
    if tested and not leads:
        most = max(each.budget.epsilon for each in tested)
        return f"No algorithm is significantly best at \u03b5 \u2264 {epsilon_text(most, 4)}"
    if tested and leads.total() < len(told):
        return _partly(told, "at", f"{len(told)} privacy budgets")
    rivals = any(each.other_algorithm for each in told)
    untested = "" if tested else f" ({NO_TEST})" if rivals else " (no comparison at equal noise)"
    by_model: dict[str, set[str]] = {}
    for each in told:
        by_model.setdefault(each.budget.model, set()).add(each.algorithm)
    if len(set.union(*by_model.values())) == 1:
        return f"{told[0].algorithm} has the {what} at every certified privacy budget{untested}{_noise(told)}"
    if all(len(winners) == 1 for winners in by_model.values()):
        first, *others = [(next(iter(winners)), _under(told, model)) for model, winners in by_model.items()]
        rest = ", ".join(f"{name} {under}" for name, under in others)
        return f"{first[0]} has the {what} {first[1]}, {rest}{untested}"
    return f"The algorithm with the {what} depends on the privacy budget{untested}"


def _under(told: Sequence[Finding], model: str) -> str:
    return f"under {_model_text(model)}{_noise([each for each in told if each.budget.model == model])}"


def _noise(told: Sequence[Finding]) -> str:
    """Return a clause on the noise of the best cells where other algorithms have no cell with the same noise."""
    ratios = [(name, ratio) for each in told for name, ratio in each.noise_ratios.items()]
    names = {name: None for name, ratio in ratios if ratio.unequal}
    others = [*names] if len(names) <= _MOST_NAMED else [f"{len(names)} other algorithms"]
    return noise_clause([ratio for name, ratio in ratios if name in names], others)


def _leads(told: Sequence[Finding]) -> tuple[list[Finding], Counter[str]]:
    """Return the tests, and how often each algorithm is significantly better than all others at equal noise."""
    tested = [each for each in told if each.ahead is not None]
    return tested, Counter(each.algorithm for each in tested if each.ahead)


def _partly(told: Sequence[Finding], at: str, places: str) -> str:
    """Return the algorithms that are significantly best at some of these places, if not at all of them."""
    tested, leads = _leads(told)
    (first, count), *others = leads.most_common()
    untested = len(told) - len(tested)
    more = f"; {untested} {'is' if untested == 1 else 'are'} untested at equal noise" if untested else ""

    def where(name: str) -> str:
        leading = [each for each in told if each.ahead and each.algorithm == name]
        return f"{_environments(leading, told)}{_noise(leading)}"

    if not others:
        return f"Only {first} is significantly best, {at} {count} of {places}{where(first)}{more}"
    rest = "".join(f", {name} {at} {number}{where(name)}" for name, number in others)
    return f"{first} is significantly best {at} {count} of {places}{where(first)}{rest}{more}"


def _environments(found: Sequence[Finding], told: Sequence[Finding]) -> str:
    """Return the environments of some findings in brackets, or how many; '' if all `told` are of one environment."""
    keys = environment_keys([each.cell.row for each in told], besides="episodes")
    names, every = (
        {environment_text(each.cell.row, keys, setting_text): None for each in some} for some in (found, told)
    )
    if not names or len(every) == 1:
        return ""
    text = "; ".join(names)
    return f" ({text})" if len(text) <= _LONGEST else f" ({len(names)} of {len(every)} environments)"


def _at_one_budget(told: Sequence[Finding]) -> list[Finding]:
    """Return one finding of the largest group for each trust model, at the same epsilon if possible.

    Of the epsilons at which most trust models have a best cell that learned, it is the one nearest to 1.
    """
    group = max((each.group for each in told), key=lambda group: len(group.cells))
    here = [each for each in told if each.group is group]
    learned = [each for each in here if not each.cell.unlearned] or here
    epsilons = {each.budget.epsilon for each in learned}

    def rank(epsilon: float) -> tuple[int, float]:
        models = {each.budget.model for each in learned if each.budget.epsilon == epsilon}
        return -len(models), abs(math.log(epsilon)) if epsilon > 0 else math.inf

    epsilon = min(sorted(epsilons), key=rank)
    chosen: dict[str, Finding] = {}
    for each in learned:
        # The largest of several deltas, because its cells include those of the others.
        if each.budget.epsilon == epsilon:
            chosen[each.budget.model] = each
    return list(chosen.values())


def _clause(each: Finding, *, named: bool) -> str:
    at = ", ".join(filter(None, (far_below_budget(each), f"\u03b4 = {delta_number(each.cell.delta)}")))
    subject = f"{each.algorithm} " if named else ""
    text = f"{subject}{_amount(each)} under {_model_text(each.budget.model)} ({at})"
    cost = each.cost
    if cost is None:
        return text + other_clipping(each)
    metric = each.group.metric.label if each.group.metric is not None else ""
    ratio = f"{_times(cost.value)}{_interval(cost)} its {metric} without privacy"
    return f"{text}, {ratio if cost.scale == 'log' else _difference(each, cost)}{each.cost_remark}"


def far_below_budget(each: Finding) -> str:
    """Return the certified epsilon of a best cell that leaves a tenth or more of its budget, else ''."""
    proved = each.cell.proved
    return f"certified \u03b5 = {epsilon_text(proved, 4)}" if proved < _USES_BUDGET * each.budget.epsilon else ""


def _difference(each: Finding, cost: Effect) -> str:
    """Return the cost of privacy as a difference, per episode if the headline is a sum."""
    metric = each.group.metric
    if cost.value == 0.0:
        return "the same as without privacy"
    per_episode = ""
    if metric is not None and metric.over == "sum":
        cost = cost._replace(**{key: getattr(cost, key) / each.group.episodes for key in ("value", "lower", "upper")})
        per_episode = f" per {each.group.unit}"
    label = metric.label if metric is not None else ""
    return f"a difference of {effect_text(cost)}{per_episode} from its {label} without privacy"


def _amount(each: Finding) -> str:
    """Return the headline of the best cell, per episode if it is a sum."""
    metric, value = each.group.metric, each.cell.estimate.value
    if metric is None:
        return ""
    if metric.over != "sum":
        return f"has a {metric.label} of {rounded(value, 2)}"
    if value == 0.0:
        return f"has no {metric.label}"
    per_episode = rounded(value / each.group.episodes, 2)
    return f"loses {per_episode} {metric.unit} per {each.group.unit}"


def _times(ratio: float) -> str:
    return f"{rounded(ratio, 2 if ratio < 100 else 3)} times"


def _interval(found: Effect) -> str:
    ends = (found.lower, found.upper)
    if math.isnan(found.lower):
        return ""
    return f" [{', '.join(rounded(end, 2 if end < 100 else 3) for end in ends)}]"


def _tests(told: Sequence[Finding]) -> list[str]:
    """Return the number of budgets at which the best algorithm is significantly better than the next at equal noise."""
    rivals = [(each, each.other_algorithm) for each in told if each.other_algorithm is not None]
    if not rivals:
        return []
    tested = [(each, rival) for each, rival in rivals if rival.significant is not None]
    if not tested:
        return [f"{NO_TEST.capitalize()}."]
    significant = [each for each, rival in tested if rival.behind]
    bests, leaders = ({each.algorithm for each in some} for some in (told, [each for each, _ in tested]))
    leader = next(iter(leaders)) if len(leaders) == 1 else "the best algorithm"
    whose = "Its lead" if len(bests) == 1 else f"The lead of {leader}"
    others = {algorithm_name(each.group.cells[rival.place].row) for each, rival in tested}
    name = next(iter(others)) if len(others) == 1 else "the next algorithm"
    over = "its next setting" if len(others | bests) == 1 else f"{name} at equal noise"
    where = f"{len(significant)} of {counted(len(tested), 'budget')}{_environments(significant, told)}"
    return [f"{whose} over {over} is significant at {where}."]


def _mixed(chosen: Sequence[Finding]) -> list[str]:
    """Return a sentence if the next best cell differs in algorithm and noise, with the ratio at equal noise."""
    told: dict[str, list[str]] = {}
    for each in chosen:
        rival, equal = each.next_best, each.other_algorithm
        if rival is None or not rival.mixed:
            continue
        name = algorithm_name(each.group.cells[rival.place].row)
        mixed = MIXED if name != each.algorithm else "settings and noise differ"
        text = f"{mixed} between the best cell and the next best ({name}){rival.noise}"
        if equal is None:
            remedy = schedule_remedy(each.cell, each.group.cells[rival.place], rival.differs_in)
            text += f"; no cell of another algorithm has the same noise{remedy}"
        else:
            text += f"; at equal noise, {rival_text(each.group, equal)}"
        told.setdefault(text, []).append(_model_text(each.budget.model))
    return [f"Under {' and '.join(models)}, {text}." for text, models in told.items()]


def _presets(told: Sequence[Finding]) -> list[str]:
    """Return a sentence if algorithms of a report have constants of different presets."""
    rows = [cell.row for each in told for cell in each.group.cells]
    presets = {algorithm_name(row): str(row[_PRESET]) for row in rows if _PRESET in row}
    if len({*presets.values()}) < 2:
        return []
    return [f"Presets differ: {', '.join(f'{name} {preset}' for name, preset in presets.items())}."]


def _gaps(each: Finding) -> list[Metric]:
    """Return the gap metrics of the best cell's output policy, exploitability first."""
    return results_in(each.cell.row, is_gap)[::-1]


def _output_policies(chosen: Sequence[Finding]) -> list[str]:
    """Return the gaps of the best cells' output policies, for games only."""
    told = []
    for each in (each for each in chosen if _gaps(each)):
        cell, reference = each.cell, each.reference
        values = [f"{gap.label} {estimate_text(Estimate.of_row(cell.row, gap.name), 2)}" for gap in _gaps(each)]
        text = f"Under {_model_text(each.budget.model)}, the output policy has {' and '.join(values)}"
        if reference is not None:
            row = each.group.cells[reference].row
            free = [rounded(row[metric.name], 2) for metric in _gaps(each)]
            text += f" (without privacy {' and '.join(free)})"
        told.append(f"{text}.")
    return told


def _requested(groups: Sequence[Group]) -> list[str]:
    """Return the comparison of two cells that a user asked for; tables have those of several pairs."""
    pairs = [(group, *pair) for group in groups if group.metric is not None for pair in group.asked]
    if len(pairs) != 1:
        return []
    found = [(group, other, rival_of(group, other, [one])) for group, one, other in pairs]
    return [
        f"As asked, {group.names[rival.place]} against {group.names[one]}: "
        f"{comparison_text(rival._replace(effect=group.effect(rival.place, one)))}."
        for group, one, rival in found
        if rival is not None
    ]


def _mapped(groups: Sequence[Group]) -> list[str]:
    """Return what a reward is worth in environments with rewards outside [0, 1]."""
    rows = [group.cells[0].row for group in groups]
    ranges = {
        environment_name(row): (row["derived_reward_low"], row["derived_reward_high"])
        for row in rows
        if "derived_reward_high" in row
    }
    return [
        f"Mean rewards of {name} are mapped from [{low:g}, {high:g}] to [0, 1]: 1 is {high - low:g} of its own rewards."
        for name, (low, high) in ranges.items()
    ]


def _failed(told: Sequence[Finding]) -> list[str]:
    """Return a sentence naming the best cells with a failing claim."""
    cells = {each.name for each in told if each.cell.row["verdict"] != "holds"}
    return [f"Claims fail among the best cells: {'; '.join(sorted(cells))}."] if cells else []
