import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { ActivationCheckpointingConfig } from '../../src/config/settings/memory';
import * as tf from '../../src/core/tf';
import { gradients } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import { FUSED } from '../../src/engine/backend/fused/fused-kernel';
import { interceptKernels } from '../../src/engine/backend/tfjs-state';
import { type GptShape, gpt } from '../../src/nn/models/gpt';
import { DDP } from '../../src/sharding/ddp/distributed-data-parallel';
import { applyActivationCheckpointing } from '../../src/sharding/recompute/apply-activation-checkpointing';
import { ENGINE_CASES } from '../support/engines';
import { predictActivations } from '../support/formulas/activation-formulas';
import { soloGroup } from '../support/solo-group';
import { TallyObserver } from '../support/tally-observer';

const SHAPES: readonly (GptShape & { readonly batch: number })[] = [
  { layers: 3, dim: 16, heads: 2, vocab: 61, seq: 8, batch: 2 },
  { layers: 5, dim: 12, heads: 3, vocab: 17, seq: 5, batch: 1 },
  { layers: 2, dim: 12, heads: 3, vocab: 17, seq: 7, batch: 2, attention: 'flash' },
];

const POLICIES: readonly (ActivationCheckpointingConfig | null)[] = [
  null,
  'full',
  'selective',
  { everyNth: 2 },
  { everyNth: 4 },
  { saveOps: ['gelu'] },
  { saveOps: ['layerNorm', 'causalAttention'] },
  { budgetBytes: 31_000 },
];

for (const engineCase of ENGINE_CASES) {
  describe(`activations by formula, ${engineCase.name}`, () => {
    let engine: Engine;
    const tally = new TallyObserver();
    before(async () => {
      engine = await engineCase.start();
      engine.observe(tally);
    });

    /** Bytes held between forward and backward; kernels of forward and of the second forwards. */
    function measure(
      { batch, ...shape }: (typeof SHAPES)[number],
      checkpointing: ActivationCheckpointingConfig | null,
      offload: boolean,
    ) {
      const model = gpt(shape);
      let isSecond = false;
      const applied = applyActivationCheckpointing(
        { engine, observer: tally },
        model,
        checkpointing,
        offload,
      );
      new DDP(model, { engine, observer: tally, group: soloGroup(engine) });
      const tag = { cause: 'batch', module: '' } as const;
      const [ids, targets] = engine.tagged(tag, () => [
        tf.zeros([batch, shape.seq], 'int32'),
        tf.zeros([batch * shape.seq], 'int32'),
      ]) as [tf.Tensor, tf.Tensor];
      // The layers for a budget are chosen at the end of the first forward.
      if (applied.layers === null) {
        const first = gradients(engine, () => model.apply(ids, targets));
        first.dispose();
        first.loss.dispose();
      }
      const kernels = { first: [] as string[], second: [] as string[] };
      for (const block of model.blocks) {
        const forward = block.forward.bind(block);
        block.forward = (x) => {
          const restore = interceptKernels((name) => void kernels[isSecond ? 'second' : 'first'].push(name));
          try {
            return forward(x);
          } finally {
            restore();
          }
        };
      }
      const pass = gradients(engine, () => model.apply(ids, targets));
      const held = { deviceBytes: tally.bytes('activation'), hostBytes: tally.hostBytes('activation') };
      isSecond = true;
      const ran: string[] = [];
      const restore = interceptKernels((name) => void ran.push(name));
      pass.backward();
      restore();
      assert.equal(tally.bytes('activation') + tally.hostBytes('activation'), 0);
      tf.dispose([ids, targets, pass.loss]);
      model.dispose();
      return { ...held, kernels, backward: ran, applied };
    }

    for (const offload of [false, true]) {
      for (const checkpointing of POLICIES) {
        const name = `${JSON.stringify(checkpointing)}${offload ? ' on the host' : ''}`;
        test(`the memory held between forward and backward is predicted to the byte: ${name}`, () => {
          for (const shape of SHAPES) {
            const { deviceBytes, hostBytes } = measure(shape, checkpointing, offload);
            const fusedAttention = engine.blas.library !== null;
            const question = { shape, batch: shape.batch, checkpointing, offload, fusedAttention };
            const predicted = predictActivations(question);
            assert.deepEqual(
              { deviceBytes, hostBytes },
              { deviceBytes: predicted.deviceBytes, hostBytes: predicted.hostBytes },
              JSON.stringify(predicted.modules.slice(0, 2)),
            );
          }
        });
      }
    }

    test('full checkpointing costs exactly one more forward of the layers, in kernels and in the formula', () => {
      for (const shape of SHAPES) {
        const { kernels } = measure(shape, 'full', false);
        assert.ok(kernels.first.length > 0);
        assert.deepEqual(kernels.second.sort(), kernels.first.sort());
        assert.deepEqual(measure(shape, null, false).kernels.second, []);
        const inputs = 4 * shape.layers * shape.batch * shape.seq * shape.dim;
        const checkpointing = { budgetBytes: inputs };
        const fusedAttention = engine.blas.library !== null;
        const question = { shape, batch: shape.batch, checkpointing, fusedAttention };
        const { choice } = measure(shape, checkpointing, false).applied;
        assert.equal(choice?.savedBytes, inputs);
        assert.equal(choice?.recomputedFlops, predictActivations(question).recomputedFlops);
      }
    });

    test('selective checkpointing repeats no matmul of the layers, and all their other kernels', () => {
      const [shape] = SHAPES as [(typeof SHAPES)[number]];
      const { backward } = measure(shape, 'selective', false);
      const count = (name: string): number => backward.filter((kernel) => kernel === name).length;
      assert.equal(count(FUSED.linear) + count(FUSED.causalAttention) + count(FUSED.causalSoftmax), 0);
      assert.equal(count(FUSED.gelu), shape.layers);
      assert.equal(count(FUSED.layerNorm), 2 * shape.layers);
      const flops = predictActivations({
        shape,
        batch: shape.batch,
        checkpointing: 'selective',
      }).recomputedFlops;
      assert.equal(flops, shape.layers * 8 * shape.batch * shape.seq * shape.dim);
    });
  });
}
