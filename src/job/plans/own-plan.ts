import { requireKnownOptions } from '../../config/option-names';
import { warnOnce } from '../../core/warn';
import { countedPlan } from '../../plan/dry-run/counted-plan';
import type { AnyLayout } from '../../plan/layout';
import { ownModelRefused } from '../../plan/models';
import {
  PLAN_OPTIONS,
  type PlanOptions,
  type PlanPlace,
  partsOf,
  placeOf,
  withPlace,
} from '../../plan/plan-input';
import { warnOnStderr } from '../control/folded-lines';
import { ownOnMeta } from '../rank/own-on-meta';
import { splitInput } from './own';
import { createPlan, type Plan } from './plan';

/** Returns the counted plan of a config whose model is the user's own; undefined for other inputs. */
export function ownPlan(
  input: unknown,
  place: PlanPlace,
  options: PlanOptions = {},
): Plan<AnyLayout> | undefined {
  if (!isOwn(input)) return undefined;
  requireKnownOptions('plan(input, place, { … })', options, PLAN_OPTIONS);
  const { written, place: at } = partsOf(withPlace(Object(input), placeOf(place)));
  const { config, own } = splitInput(written);
  if (own === undefined) return undefined;
  const counted = { place: at, calibration: options.calibration, warn: warnOnce(warnOnStderr) };
  return createPlan(countedPlan(config, ownOnMeta(own.functions), counted));
}

/** Throws: CONFIG if the input's model is the user's own, because the function `what` needs formulas. */
export function refuseOwn(what: string, input: unknown): void {
  if (isOwn(input)) throw ownModelRefused(what);
}

/** Whether the input's model is the user's own. */
export function isOwn(input: unknown): boolean {
  return splitObject(input).own?.sources.model != null;
}

function splitObject(input: unknown): Partial<ReturnType<typeof splitInput>> {
  return typeof input === 'object' && input !== null ? splitInput(input) : {};
}
