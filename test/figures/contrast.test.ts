import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DARK, LIGHT } from '../../src/figures/grammar/ink';
import {
  CAUSE_FILL,
  COMM_FILL,
  type Fill,
  inkOn,
  LINE_COLORS,
  NEUTRAL_FILL,
  OVER,
  PHASE_FILL,
  WAIT_OUTLINE,
} from '../../src/figures/grammar/palette';

/** The least contrasts by WCAG 2: success criterion 1.4.3 for text, 1.4.11 for marks. */
const [TEXT, MARK] = [4.5, 3];

const FILLS: readonly (readonly [string, Fill])[] = [
  ...Object.entries({ ...CAUSE_FILL, ...COMM_FILL, ...PHASE_FILL }),
  ['neutral', NEUTRAL_FILL],
];

test('texts of pictures have a contrast of 4.5 to the light and to the dark paper', () => {
  for (const { background, strong, soft } of [LIGHT, DARK]) {
    for (const ink of [strong, soft]) assert.ok(contrast(ink, background) >= TEXT, `${ink} on ${background}`);
  }
});

test('numbers on bars have a contrast of 4.5 to the bar', () => {
  const faint = FILLS.filter(([, fill]) => contrast(long(inkOn(fill)), fill.color) < TEXT);
  assert.deepEqual(faint, []);
});

test('marks and lines of pictures for dark pages have a contrast of 3 to the paper', () => {
  const colors = [...FILLS.map(([, { color }]) => color), ...LINE_COLORS, OVER, WAIT_OUTLINE.color];
  const faint = colors.filter((color) => contrast(color, DARK.background) < MARK);
  assert.deepEqual(faint, []);
});

test('lines of pictures for light pages have a contrast of 3, except yellow, which comes fifth', () => {
  const faint = [...LINE_COLORS, OVER, WAIT_OUTLINE.color].filter(
    (color) => contrast(color, LIGHT.background) < MARK,
  );
  assert.deepEqual(faint, [LINE_COLORS[4]]);
});

test('a mark of pictures for light pages that is pale has a hatch, except forward and loss, which have names beside them', () => {
  const faint = FILLS.filter(
    ([, { color, pattern }]) => contrast(color, LIGHT.background) < MARK && pattern === undefined,
  );
  assert.deepEqual(faint.map(([name]) => name).sort(), ['forward', 'loss']);
});

/** The contrast of two colours by WCAG 2: (L1 + 0.05) / (L2 + 0.05). */
function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** The relative luminance of a colour such as #2362AC. */
function luminance(hex: string): number {
  const channels = [1, 3, 5].map((start) => Number.parseInt(hex.slice(start, start + 2), 16) / 255);
  const [red = 0, green = 0, blue = 0] = channels.map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** '#fff' as '#ffffff'. */
function long(hex: string): string {
  return hex.length === 4 ? hex.replaceAll(/[0-9a-f]/g, '$&$&') : hex;
}
