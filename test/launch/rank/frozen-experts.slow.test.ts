import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCell, shareJob } from '../../session/job-fixture';

const shared = shareJob({ ranks: 2 });

/** How the experts are distributed. With copies, a rank computes an expert of the other rank too. */
const WAYS: Readonly<Record<string, string>> = {
  whole: '',
  'expert parallelism': 'applyExpertParallel(model, parallel);',
  'expert parallelism, run again in backward':
    'applyExpertParallel(model, parallel); checkpointWrapper(model);',
  'copies of experts':
    "applyExpertParallel(model, parallel, { placement: { '': { experts: [[0, 1], [2, 3]], copies: [[2], [0]] } } });",
};

const FROZEN = [
  [0, 1],
  [2, 3],
  [0, 2],
  [0, 1, 2],
];

/** Prints the norms of the experts' gradients; the layer reads data, and its router is frozen. */
const gradientsOf = (frozen: readonly number[], way: string, backward: string): string => `{
  const parallel = initializeModelParallel({ expertModelParallelSize: 2 });
  const model = new nn.MixtureOfExperts({ dim: 6, experts: 4, router: 'topk', topK: 2 }).manualSeed(5);
  for (const [name, parameter] of model.namedParameters()) {
    const expert = Number(name.split('.')[1]);
    if (name.startsWith('gate') || [${frozen}].includes(expert)) parameter.requiresGrad = false;
  }
  const isWhole = ${way === ''};
  ${way}
  tf.tidy(() => {
    const x = tf.tensor(Float32Array.from({ length: 48 }, (_, i) => Math.cos(1.3 * i)), [2, 4, 6]);
    const own = isWhole ? x : tf.slice(x, rank, 1);
    ${backward}
  });
  const norms = [...model.namedParameters()].flatMap(([name, { grad }]) =>
    grad === null ? [] : [[name, Math.hypot(...grad.dataSync())]]);
  console.log(JSON.stringify(norms));
}`;

const BACKWARDS = [
  'tf.mean(tf.square(model(own))).backward();',
  'gradients(() => tf.mean(tf.square(model(own)))).backward();',
];

test('experts that train get their gradients from rows of data, whichever experts of other ranks are frozen', async () => {
  const norms = async (...args: Parameters<typeof gradientsOf>): Promise<Map<string, number>> => {
    const events = await runCell(shared(), gradientsOf(...args));
    const texts = events.flatMap((event) =>
      event.kind === 'stream' && event.name === 'stdout' ? event.text : [],
    );
    return new Map(texts.flatMap((text) => JSON.parse(text) as [string, number][]));
  };
  for (const frozen of FROZEN) {
    const whole = await norms(frozen, '', BACKWARDS[0] ?? '');
    assert.equal(whole.size, 4 * (4 - frozen.length));
    for (const [name, way] of Object.entries(WAYS).slice(1)) {
      for (const backward of BACKWARDS) {
        const found = await norms(frozen, way, backward);
        assert.deepEqual([...found.keys()].sort(), [...whole.keys()].sort(), `${name}, frozen ${frozen}`);
        for (const [parameter, norm] of whole)
          assert.ok(
            Math.abs((found.get(parameter) ?? Number.NaN) - norm) <= 1e-5 * norm,
            `${name}, frozen ${frozen}: ${parameter} ${found.get(parameter)} is not ${norm}`,
          );
      }
    }
  }
});
