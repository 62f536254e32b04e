import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usesFloat16 } from '../../../src/config/settings/precision';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { mixedPrecision, policyOf } from '../../../src/sharding/precision/mixed-precision';

const typesOf = (input: TrainConfigInput) => {
  const { paramDtype, reduceDtype } = policyOf(parseTrainConfig(input));
  return [paramDtype, reduceDtype];
};

test("the type of the reduction is reduceDtype, else communicationDataType, else the parameters' type", () => {
  assert.deepEqual(typesOf({}), ['float32', 'float32']);
  assert.deepEqual(typesOf({ mixedPrecision: 'bf16' }), ['bfloat16', 'bfloat16']);
  const wide = { paramDtype: 'bf16', reduceDtype: 'fp32' } as const;
  assert.deepEqual(typesOf({ mixedPrecision: wide }), ['bfloat16', 'float32']);
  assert.deepEqual(typesOf({ parallel: { communicationDataType: 'fp16' } }), ['float32', 'float16']);
  assert.deepEqual(typesOf({ mixedPrecision: 'bf16', parallel: { communicationDataType: 'fp32' } }), [
    'bfloat16',
    'float32',
  ]);
});

test('mixedPrecision fills in the settings that are left out', () => {
  const policy = mixedPrecision({ paramDtype: 'float16' });
  assert.deepEqual(
    [policy.reduceDtype, policy.outputDtype, policy.castForwardInputs],
    ['float16', null, true],
  );
  assert.equal(mixedPrecision({}).reduceDtype, 'float32');
});

test('usesFloat16 is true if parameters or gradients on the wire are float16', () => {
  const uses = (input: TrainConfigInput): boolean => usesFloat16(parseTrainConfig(input));
  assert.equal(uses({ mixedPrecision: 'fp16' }), true);
  assert.equal(uses({ parallel: { communicationDataType: 'fp16' } }), true);
  assert.equal(uses({ mixedPrecision: 'bf16' }), false);
  assert.equal(uses({}), false);
});
