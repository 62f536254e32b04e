import { test } from 'node:test';
import {
  CAUSE_FILL,
  COMM_FILL,
  type Fill,
  LINE_COLORS,
  PHASE_FILL,
  WAIT_FILLS,
} from '../../src/figures/grammar/palette';
import { TEMPLATE } from '../../src/figures/grammar/template';
import { assertGolden } from './golden';

test('template and palette of all figures equal the golden file', () => {
  const fills = { ...CAUSE_FILL, ...COMM_FILL, ...PHASE_FILL, ...WAIT_FILLS };
  const lines = [
    ...settingLines(TEMPLATE.layout, ''),
    ...Object.entries(fills).map(([name, fill]) => `${name}: ${fillText(fill)}`),
    `lines: ${LINE_COLORS.join(' ')}`,
  ];
  assertGolden('style', `${lines.join('\n')}\n`);
});

function settingLines(settings: object, path: string): string[] {
  return Object.entries(settings).flatMap(([key, value]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? settingLines(value, `${path}${key}.`)
      : [`${path}${key}: ${String(value)}`],
  );
}

function fillText({ color, pattern }: Fill): string {
  return pattern === undefined ? color : `${color} ${Object.values(pattern).join(' ')}`;
}
