import type { MemoryCause } from '../../../src/core/events';
import type { Bytes } from '../../../src/core/units';
import { type RuleSettings, ruleOf, type UnitRule } from './unit-rules';
import type { ZeroQuestion, ZeroUnit } from './zero-formulas';

/** A unit of a model whose order of units is known. */
export interface PeakUnit extends ZeroUnit {
  /** Name of the unit around it; null for the root. */
  readonly parent: string | null;
}

/** The bytes held at the moment of a cause's peak, by name, and their sum. */
export interface PeakPrediction {
  readonly cause: MemoryCause;
  readonly terms: Readonly<Record<string, Bytes>>;
  readonly bytes: Bytes;
}

/** Elements by unit, with the reason. */
type Moment = ReadonlyMap<string, number>;

interface Ruled {
  readonly unit: PeakUnit;
  readonly rule: UnitRule;
  readonly trained: number;
  /** Elements of this rank's shard, and of the shard's trainable parameters. */
  readonly chunk: number;
  readonly trainedChunk: number;
}

/**
 * The peaks of parameters and gradients in a step, once the order of units is known (from the second
 * step on). Units are given in the order in which they are entered, the root first.
 *
 * [Note: moments] Whole parameters: a unit is whole together with the units around it, those that stay whole from their forward to
 * their backward, and the one that is prefetched. Whole gradients: a unit's are complete at the end of its backward, when those
 * of the unit before it are still being reduced.
 */
export function predictPeaks(
  question: Omit<ZeroQuestion, 'units'> & { readonly units: readonly PeakUnit[] },
) {
  const { itemBytes = 4 } = question;
  const units = question.units.map((unit) => ruled(unit, question));
  const { whole, shards } = gradients(units, question);
  const causes = {
    'param.full': wholeParameters(units, question),
    'param.shard': parameterShards(units, question),
    'grad.full': whole,
    'grad.shard': shards,
  } as const;
  return Object.entries(causes).map(([cause, moments]) => largest(cause as MemoryCause, moments, itemBytes)); // its own keys
}

function ruled(unit: PeakUnit, question: Omit<ZeroQuestion, 'units'>): Ruled {
  const { numParams, padding = 0, frozen = { numParams: 0, padding: 0 } } = unit;
  const rule = ruleOf(unit.strategy ?? question.strategy, unit.staysWhole === true, question);
  const trained = numParams - frozen.numParams;
  return {
    unit,
    rule,
    trained,
    chunk: (numParams + padding) / rule.numShards,
    trainedChunk: (trained + padding - frozen.padding) / rule.numShards,
  };
}

function largest(cause: MemoryCause, moments: readonly Moment[], itemBytes: number): PeakPrediction {
  let most: PeakPrediction = { cause, terms: {}, bytes: 0 };
  for (const moment of moments) {
    const held = [...moment].filter(([, elements]) => elements > 0);
    const bytes = held.reduce((sum, [, elements]) => sum + elements * itemBytes, 0);
    if (bytes <= most.bytes) continue;
    most = { cause, bytes, terms: Object.fromEntries(held.map(([name, n]) => [name, n * itemBytes])) };
  }
  return most;
}

/** The units around a unit, itself last. */
function around(units: readonly Ruled[], of: Ruled): Ruled[] {
  const parent = units.find(({ unit }) => unit.name === of.unit.parent);
  return [...(parent === undefined ? [] : around(units, parent)), of];
}

/** In the order in which backward begins: the root, then each unit before those that were entered earlier. */
function backwardOrder(units: readonly Ruled[]): Ruled[] {
  const within = (parent: string | null): Ruled[] =>
    units
      .filter(({ unit }) => unit.parent === parent)
      .reverse()
      .flatMap((child) => [child, ...within(child.unit.name)]);
  return within(null);
}

/** Units that are gathered: the sharded ones. */
function gathered(units: readonly Ruled[]): Ruled[] {
  return units.filter(({ rule }) => rule.cuts('optimizer') || rule.hasMaster);
}

function wholeParameters(units: readonly Ruled[], settings: RuleSettings): Moment[] {
  const { forwardPrefetch = true, backwardPrefetch = 'BACKWARD_PRE' } = settings;
  const always = units.filter(({ rule }) => !rule.isGatheredForUse);
  const stays = (one: Ruled): boolean => one.rule.isGatheredForUse && !one.rule.reshards;
  const backward = backwardOrder(units);
  const moment = (kept: readonly Ruled[], use: Ruled, ahead: Ruled | undefined): Moment => {
    const whole = new Set([...always, ...kept, ...around(units, use), ...(ahead ? [ahead] : [])]);
    return new Map([...whole].map(({ unit }) => [unit.name, unit.numParams]));
  };
  const isGathered = new Set(gathered(units));
  const next = (order: readonly Ruled[], use: Ruled): Ruled | undefined =>
    order.slice(order.indexOf(use) + 1).find((one) => isGathered.has(one));
  return [
    ...units.map((use, i) => {
      const looksAhead = forwardPrefetch && isGathered.has(use);
      return moment(units.slice(0, i).filter(stays), use, looksAhead ? next(units, use) : undefined);
    }),
    ...backward.map((use, i) => {
      const kept = backward.slice(i).filter(stays);
      return moment(kept, use, backwardPrefetch === 'BACKWARD_PRE' ? next(backward, use) : undefined);
    }),
  ];
}

/** Masters at rest; and shards after forward, or copies from the host for running gathers. */
function parameterShards(units: readonly Ruled[], settings: RuleSettings): Moment[] {
  const { offloadsParameters = false, forwardPrefetch = true, backwardPrefetch = 'BACKWARD_PRE' } = settings;
  const isOnHost = ({ rule }: Ruled): boolean => offloadsParameters && rule.isGatheredForUse;
  const rest = units
    .filter((one) => one.rule.hasMaster && !isOnHost(one))
    .map((one) => [one.unit.name, one.chunk] as const);
  const between = units.flatMap(({ unit, rule }) =>
    rule.postForward === null
      ? []
      : [
          [
            `${unit.name}, after forward`,
            (unit.numParams + (unit.postForwardPadding ?? 0)) / rule.postForward,
          ] as const,
        ],
  );
  const pairs = (order: readonly Ruled[], ahead: boolean): Moment[] =>
    order.map((one, i) => {
      const staged = [one, ...(ahead ? order.slice(i + 1, i + 2) : [])].filter(isOnHost);
      return new Map([
        ...rest,
        ...staged.map((other) => [`${other.unit.name}, staged`, other.chunk] as const),
      ]);
    });
  const again = backwardOrder(units).filter(({ rule }) => rule.reshards && rule.postForward === null);
  return [
    new Map([...rest, ...between]),
    ...pairs(gathered(units), forwardPrefetch),
    ...pairs(again, backwardPrefetch === 'BACKWARD_PRE'),
  ];
}

/** Goes through the ends of all units' backwards: whole gradients, unreduced gradients, and those in reduction. */
function gradients(units: readonly Ruled[], settings: RuleSettings): { whole: Moment[]; shards: Moment[] } {
  const { accumulation = 1, offloadsParameters = false } = settings;
  const order = [...units].reverse();
  const whole: Moment[] = [];
  const shards: Moment[] = [];
  const held = new Map<string, number>();
  const heldShards = new Map<string, number>();
  for (let micro = 0; micro < accumulation; micro++) {
    let reducing: Ruled | undefined;
    for (const one of order) {
      const { unit, rule, trained } = one;
      const { name } = unit;
      if (trained === 0) {
        // A unit without gradients waits for the reduction before it too.
        settle(reducing, held);
        reducing = undefined;
        continue;
      }
      whole.push(new Map([...held, ...term(reducing, 'on its way', 'trained'), [`${name}, new`, trained]]));
      settle(reducing, held);
      const agreeing = reducing !== undefined && reducing.rule.numCopies > 1 ? reducing : undefined;
      reducing = undefined;
      if (rule.reductions === 1 && micro < accumulation - 1) {
        held.set(name, trained);
        continue;
      }
      if (rule.reductions === 1) held.delete(name);
      reducing = one;
      if (!rule.cuts('gradient')) continue;
      const leaves = offloadsParameters && rule.isGatheredForUse;
      // The first one of a step is the one to which others are added.
      const isFirst = (other: Ruled): boolean => !leaves && !heldShards.has(other.unit.name);
      const passing = [...(agreeing !== undefined && (leaves || micro > 0) ? [agreeing] : []), one];
      shards.push(
        new Map([
          ...heldShards,
          ...passing.flatMap((other) => [...term(other, isFirst(other) ? 'first' : 'new', 'trainedChunk')]),
        ]),
      );
      if (!leaves) heldShards.set(name, one.trainedChunk);
    }
    settle(reducing, held);
  }
  return { whole, shards };
}

function term(one: Ruled | undefined, why: string, what: 'trained' | 'trainedChunk'): [string, number][] {
  return one === undefined ? [] : [[`${one.unit.name}, ${why}`, one[what]]];
}

/** Whole gradients that were reduced are freed, or are the result. */
function settle(one: Ruled | undefined, held: Map<string, number>): void {
  if (one !== undefined && !one.rule.cuts('gradient')) held.set(one.unit.name, one.trained);
}
