import { ConfigError, listed } from '../../core';
import { type Figure, planFigures, planTexts, sessionGuesses, type WhatIfSetting } from '../../figures';
import {
  changedInput,
  type Held,
  inputAt,
  type KnobValues,
  type PlanInput,
  type Planned,
  type PlanObject,
  type PlanPlace,
  peakInBytes,
  plannedInput,
  reservableBytes,
  type Turn,
  tokensPerStep,
  turnsOf,
} from '../../planner';

/**
 * Changes one setting of a plan at a time, and draws iteration time and peak memory for every value. Values that are not legal
 * are not drawn, but the figure names them. Throws: CONFIG for a wrong request, for an unknown setting, and if no value is legal.
 */
export function whatIf(input: PlanInput, knobs: KnobValues, place: PlanPlace = {}): Figure {
  const base = plannedInput(input, place);
  const asked = inputAt(input, place) as PlanObject; // `plannedInput` has checked it
  const { layout } = base;
  // A config's batch is per rank. Both batches are fixed, so that changes of degrees do not change them.
  const { globalBatch, microBatch } = layout;
  const held = { globalBatch, microBatch };
  const refused: { readonly value: string; readonly why: string }[] = [];
  const turned = turnsOf(knobs).map(({ label, turns }) => ({
    knob: label,
    settings: turns.flatMap((turn) => {
      const planned = tried(asked, turn, held);
      if ('layout' in planned) return [settingOf(turn, planned, base)];
      refused.push({ value: `${label} ${turn.value}`, why: planned.message });
      return [];
    }),
  }));
  const [first] = refused;
  if (first !== undefined && turned.every(({ settings }) => settings.length === 0))
    throw new ConfigError(`whatIf: no value is legal; ${first.value}: ${first.why}`);
  const isScaled = turned.some(({ settings }) => settings.some((one) => one.isScaled));
  const tokens = tokensPerStep(layout).toLocaleString('en-US');
  const work = isScaled ? ` Times are for ${tokens} tokens.` : '';
  const figure = planFigures.whatIf(
    turned.filter(({ settings }) => settings.length > 0),
    {
      capacityBytes: reservableBytes(layout),
      subtitle: `${layout.model.name}, ${layout.gpus} x ${layout.hardware.name}, ${planTexts.layoutWords(layout)}; bold: the plan's settings.${work}`,
    },
  );
  const noted = planTexts.withAssumed(figure, base.assumed);
  return sessionGuesses().reveal(
    refused.length === 0 ? noted : noted.withNote(`Not legal: ${listed(refused.map(({ value }) => value))}.`),
  );
}

/** Returns the plan with changed settings, or the error if the settings are not legal. */
function tried(input: PlanObject, turn: Turn, held: Held): Planned | ConfigError {
  try {
    return changedInput(input, turn.place, { ...held, ...turn.held });
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
}

/** Scales times to the tokens of the base plan, so that values that change the number of tokens are compared at equal work. */
function settingOf(turn: Turn, planned: Planned, { layout }: Planned): WhatIfSetting {
  const { memory, fits } = planned.prediction;
  const work = tokensPerStep(layout) / tokensPerStep(planned.layout);
  const { value, low, high } = planned.prediction.seconds;
  const seconds = { value: value * work, low: low * work, high: high * work };
  const name = String(turn.value);
  return {
    name,
    seconds,
    memoryBytes: peakInBytes(memory),
    fits,
    isBase: turn.isOf(layout),
    isScaled: work !== 1,
  };
}
