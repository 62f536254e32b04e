import type { Planned } from './cost-of';
import { layoutOfRequest } from './layout-of';
import type { Assumed, ConfigReading } from './layout-of-config';
import { parseRequest } from './parse-request';
import { type PlanInput, type PlanOptions, type PlanPlace, questionOf } from './plan-input';
import { predict } from './predict';
import { requestReadings } from './request-readings';

/** What an input is expected to take and need, with what of it is planned otherwise. Throws: CONFIG as `plan` does. */
export function plannedInput(
  input: PlanInput,
  place: PlanPlace = {},
  options: PlanOptions = {},
): Planned & ConfigReading {
  const { request, assumed: ofConfig, withoutEffect } = questionOf(input, place, options);
  const { assumed, ...planned } = plannedRequest(request);
  return { ...planned, assumed: [...ofConfig, ...assumed], withoutEffect };
}

/** The same of a plan request. Throws: CONFIG naming the key, its value and what to change. */
export function plannedRequest(written: object): Planned & { readonly assumed: readonly Assumed[] } {
  const request = parseRequest(written);
  const layout = layoutOfRequest(request);
  return { layout, prediction: predict(layout), assumed: requestReadings(written, request, layout) };
}
