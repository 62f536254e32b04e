import type { PlanObject } from '../planner';

/** Returns the cell that shows a prediction: `sl.plan({ … })`. */
export function planCell(request: PlanObject): string {
  return `sl.plan(${literal(request)})`;
}

/** Returns the cell that shows by how many percent a number of one plan ('seconds.value') differs from the base plan's number. */
export function changeCell(plan: PlanObject, base: PlanObject, figure: string): string {
  return `100 * (${planCell(plan)}.${figure} / ${planCell(base)}.${figure} - 1)`;
}

function literal(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{ ${entries.map(([key, each]) => `${key}: ${literal(each)}`).join(', ')} }`;
}
