import { errorsOf, FRAGMENTS, type Fragment } from '../config';
import { ShardlabError } from '../core';
import type { PlanObject, Prediction } from '../planner';
import { type Claim, documentedNumber, type Requests } from './claim';
import type { Facts } from './entry';
import type { Functions } from './expression';
import { formulasOf } from './formulas';
import type { PlanLab } from './lab';
import { changeCell, planCell } from './plan-cell';
import { percentFaster, percentFasterAlike } from './speed';

/** The names that a claim's expressions may use. */
export interface Names {
  readonly values: Record<string, unknown>;
  readonly functions: Functions;
}

/** Returns the names of a claim. A prediction is made when its name is first used; a formula's result passes `lab.figure`. */
export function namesOf(claim: Claim, requests: Requests, lab: PlanLab, facts: Facts): Names {
  const request = (name: string): PlanObject => {
    const planRequest = requests[name];
    if (planRequest !== undefined) return planRequest;
    throw new ShardlabError('CHECK', `${claim.id} has no plan '${name}': add it to its plans`);
  };
  const byName = <Result>(predict: (request: PlanObject) => Result): Readonly<Record<string, Result>> => {
    const results = {};
    for (const [name, each] of Object.entries(requests)) defineLazily(results, name, () => predict(each));
    return results;
  };
  const values = {
    documented: claim.documented ?? undefined,
    given: claim.given,
    fact: facts,
    plan: byName(lab.predict),
    memory: byName(lab.memory),
  };
  return { values, functions: { ...figures(lab), ...plansOf(request, lab), ...fragmentsOf(lab) } };
}

/** Defines a name whose value is computed when it is first used. */
export function defineLazily(values: object, name: string, compute: () => unknown): void {
  const known: unknown[] = [];
  Object.defineProperty(values, name, {
    get() {
      if (known.length === 0) known.push(compute());
      return known[0];
    },
  });
}

function figures(lab: PlanLab): Functions {
  const formulas = Object.entries(formulasOf(lab)).map(([name, formula]) => [
    name,
    (...args: never[]) => {
      const value = formula(...args);
      return typeof value === 'number' ? lab.figure(`${name}(${args.join(', ')})`, value) : value;
    },
  ]);
  return Object.fromEntries(formulas);
}

type End = 'value' | 'low' | 'high';

/** Returns functions that compare plans, and functions that write plans as cells. */
function plansOf(request: (name: string) => PlanObject, lab: PlanLab): Functions {
  const plan = (name: string): Prediction => lab.predict(request(name));
  return {
    faster: (name: string, base: string, end: End) => percentFaster(plan(name), plan(base))[end],
    fasterAlike: (name: string, base: string, end: End) => percentFasterAlike(plan(name), plan(base))[end],
    cell: (name: string) => planCell(request(name)),
    change: (name: string, base: string, figure: string) => changeCell(request(name), request(base), figure),
  };
}

/**
 * Returns functions that report what the documents state: a claim's number, how often a piece of code fails on its original
 * library, and how often the description of a piece of code contains a text.
 */
function fragmentsOf(lab: PlanLab): Functions {
  const named = (name: string): Fragment => {
    const fragment = FRAGMENTS.find((each) => each.name === name);
    if (fragment !== undefined) return fragment;
    throw new ShardlabError('CHECK', `no fragment is called '${name}'; see sl.lookup()`);
  };
  return {
    stated: documentedNumber,
    numFailures: (name: string) =>
      lab.figure(`numFailures(${name})`, named(name).tried.flatMap(errorsOf).length),
    numSaid: (name: string, text: string) =>
      lab.figure(`numSaid(${name}, ${text})`, named(name).inTheOriginal.split(text).length - 1),
  };
}
