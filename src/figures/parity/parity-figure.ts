import { createFigure, type Figure, type Title } from '../figure';
import { counted } from '../format';
import { safe, textWidth } from '../grammar/ink';
import { plot } from '../grammar/plot';
import type { Table } from '../table';
import {
  differencesOf,
  digits,
  type FirstDifference,
  lossDifference,
  moduleOf,
  type NamedView,
  type ParityParts,
  shortened,
} from './parity-data';
import { groupsOf, linesOf, modulesPanel, stepsPanel, valueAxis } from './parity-panels';
import { communicationBeside, memoryBeside, parametersTable, stepsTable } from './parity-tables';

/** A comparison of two runs, which a notebook shows as a figure. */
export interface ParityFigure extends Figure {
  /** Whether nothing differs by more than `tolerance`. */
  readonly isEqual: boolean;
  readonly tolerance: number;
  /** null if nothing differs by more than the tolerance. */
  readonly first: FirstDifference | null;
  /** Both losses, and the largest differences of each step. */
  readonly steps: Table;
  /** The largest differences of each parameter and its gradient. */
  readonly parameters: Table;
  /** The calls and bytes of both runs per rank and step, by cause and by operation. */
  readonly comm: Table;
  /** The bytes of both runs at their peaks, by cause. */
  readonly memory: Table;
}

/** Draws how much losses, gradients and parameters differ between two runs: over the steps, and by part of the model. */
export function parityFigure(parts: ParityParts): ParityFigure {
  const { one, other, tolerance } = parts;
  const first = firstDifference(parts);
  const parameters = parametersTable(parts);
  const groups = groupsOf(parts.parameters);
  const names = groups.map(({ name }) => linesOf(name));
  const left = Math.max(...names.flat().map((line) => textWidth(line, 11) * 1.1)) + 14;
  const row = 3 + 14 * Math.max(...names.map(({ length }) => length));
  const axis = valueAxis(parts);
  const figure = createFigure({
    title: findingOf(parts, first),
    subtitle: subtitleOf(parts),
    ...plot(
      { top: 88, left: 64, right: 16, foot: 46, pixels: Math.max(216, groups.length * row), legend: 'plot' },
      [stepsPanel(parts, axis), modulesPanel(groups, axis, tolerance, left)],
    ),
    table: parameters,
  });
  const tables = {
    steps: stepsTable(parts),
    parameters,
    comm: communicationBeside(one, other),
    memory: memoryBeside(one, other),
  };
  return { ...figure, ...tables, isEqual: first === null, tolerance, first };
}

function firstDifference({ steps, tolerance }: ParityParts): FirstDifference | null {
  for (const one of steps) {
    const { step, first } = one;
    if (first !== null) {
      const { what, name, absolute, relative } = first;
      const said = one.losses === null ? 'initial parameter' : what;
      return { step, what: said, module: moduleOf(name), parameter: name, absolute, relative };
    }
    const loss = lossDifference(one);
    if (loss !== null && !(loss.relative <= tolerance))
      return { step, what: 'loss', module: null, parameter: null, ...loss };
  }
  return null;
}

function findingOf({ steps }: ParityParts, first: FirstDifference | null): Title {
  const numSteps = counted(steps.length - 1, 'step');
  if (first === null) {
    const most = Math.max(...steps.flatMap(differencesOf).map((value) => value ?? 0));
    const same = most === 0 ? 'are exactly equal' : `differ by at most ${digits(most)}`;
    return [`Losses, gradients and parameters of ${numSteps} ${same}`, `${numSteps} ${same}`];
  }
  const { step, what, parameter, relative } = first;
  const isNumber = Number.isFinite(relative);
  const by = isNumber ? `by ${digits(relative)} of its size` : 'which is not a number';
  const names = [parameter ?? '', shortened(parameter ?? '')];
  if (what === 'initial parameter')
    return [
      ...names.map((name) => `Before any step, ${name} ${isNumber ? `differs ${by}` : 'is not a number'}`),
    ];
  const places = what === 'loss' ? ['the loss'] : names.map((name) => `the ${what} of ${name}`);
  const wordings = places.map((place) => `First difference: step ${step}, ${place}`);
  return [...wordings.flatMap((wording) => [`${wording}, ${by}`, wording])];
}

function subtitleOf({ one, other, tolerance }: ParityParts): string {
  const place = ({ name, view }: NamedView): string =>
    `${safe(name)} (${view.strategy}, ${counted(view.world, 'rank')})`;
  return `${place(one)} and ${place(other)}: largest difference ÷ largest element; tolerance ${digits(tolerance)}.`;
}
