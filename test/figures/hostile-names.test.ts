import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DISPLAY } from '../../src/core/display';
import { comparePlans } from '../../src/figures/plans/compare-plans';
import { planMemory } from '../../src/figures/plans/plan-memory';
import { planTable } from '../../src/figures/plans/plan-texts';
import { planTime } from '../../src/figures/plans/time-breakdown';
import { plotNumbers } from '../../src/figures/plot-numbers';
import { createTable } from '../../src/figures/table';
import { plannedInput } from '../../src/planner/plan-input';

/** A name that would be code in a page, and markup in a figure. */
const NAME = '<img src=x onerror=alert(1)><b>a&b</b>';

/** Returns all texts of an output, except plain text, which a page escapes. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => (key === 'text/plain' ? [] : textsOf(each)));
}

test('the markup of a name stays text in every figure and table', () => {
  const model = { name: NAME, kind: 'llama', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 } as const;
  const plan = plannedInput({ model, gpus: 8, hardware: 'A100-80G' });
  const shown = {
    memory: planMemory(plan),
    time: planTime(plan),
    compared: comparePlans({ [NAME]: plan, b: plan }),
    comparedMemory: comparePlans({ [NAME]: plan, b: plan }, 'memory'),
    plan: planTable(plan.layout, plan.prediction),
    table: createTable([{ [NAME]: NAME }], { title: NAME }),
    line: plotNumbers({ [NAME]: [1, 2, 3] }, { yTitle: NAME, subtitle: NAME }),
    lines: plotNumbers({ [NAME]: [1, 2, 3], b: [3, 4, 5] }, { title: NAME }),
    bars: plotNumbers({ [NAME]: 1, b: 2 }),
  };
  for (const [what, figure] of Object.entries(shown)) {
    const texts = textsOf(figure[DISPLAY]());
    assert.deepEqual(
      texts.filter((text) => /<img src=x|<b>a&/.test(text)),
      [],
      what,
    );
  }
  assert.match(shown.bars.toSvg(), /&lt;img src=x onerror/);
  assert.doesNotMatch(shown.bars.toSvg(), /<img|&amp;lt;/);
});
