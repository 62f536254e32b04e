import { ConfigError } from '../../core/errors';
import type { Figure } from '../../figures/figure';
import { listed } from '../../figures/format';
import { layoutWords, withAssumed } from '../../figures/plans/plan-table';
import { whatIfFigure } from '../../figures/plans/what-if';
import type { WhatIfSetting } from '../../figures/plans/what-if-settings';
import { tokensPerStep } from '../../plan/cost-of';
import { type KnobValues, type Turn, turnsOf } from '../../plan/knobs';
import { reservableBytes } from '../../plan/memory/allocator';
import { type PlanInput, type PlanPlace, questionOf } from '../../plan/plan-input';
import { type Plan, plan } from './plan';

/**
 * One knob at a time turned away from a plan: iteration time and peak memory of every value. What is not legal is left out and
 * named. Throws: CONFIG for a wrong request, an unknown knob, and where nothing is legal.
 */
export function whatIf(input: PlanInput, knobs: KnobValues, place: PlanPlace = {}): Figure {
  const { request: asked, assumed: ofConfig } = questionOf(input, place);
  const request = asked as PlanInput; // what a plan takes, with the place's keys
  const base = plan(request);
  const { layout } = base;
  const refused: string[] = [];
  const turned = turnsOf(knobs).map(({ label, turns }) => ({
    knob: label,
    settings: turns.flatMap((turn) => {
      const planned = tried(request, turn);
      if (planned === null) refused.push(`${label} ${turn.value}`);
      return planned === null ? [] : [settingOf(turn, planned, base)];
    }),
  }));
  const isScaled = turned.some(({ settings }) => settings.some((one) => one.isScaled));
  const tokens = tokensPerStep(layout).toLocaleString('en-US');
  const work = isScaled ? ` Times are for ${tokens} tokens.` : '';
  const figure = whatIfFigure(
    turned.filter(({ settings }) => settings.length > 0),
    {
      capacityBytes: reservableBytes(layout),
      subtitle: `${layout.model.name}, ${layout.gpus} x ${layout.hardware.name}, ${layoutWords(layout)} (bold).${work}`,
    },
  );
  const noted = withAssumed(figure, [...ofConfig, ...base.assumed]);
  return refused.length === 0 ? noted : noted.withNote(`Not legal: ${listed(refused)}.`);
}

/** Null where that value is not legal. */
function tried(request: PlanInput, { place }: Turn): Plan | null {
  try {
    return plan(request, place);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** Times are of the base's tokens: a setting that changes how many an iteration holds compares by the same work. */
function settingOf(turn: Turn, planned: Plan, { layout }: Plan): WhatIfSetting {
  const { peakBytes, fits } = planned;
  const work = tokensPerStep(layout) / tokensPerStep(planned.layout);
  const { value, low, high } = planned.seconds;
  const seconds = { value: value * work, low: low * work, high: high * work };
  const name = String(turn.value);
  return { name, seconds, memoryBytes: peakBytes, fits, isBase: turn.isOf(layout), isScaled: work !== 1 };
}
