import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import ts from 'typescript';
import * as tf from '../../src/core/tf';
import * as functional from '../../src/nn/names/functional-names';
import * as nn from '../../src/nn/names/nn-names';
import { nonsense, refusesShortly } from '../support/nonsense';
import { repositoryRoot } from '../support/paths';
import { testEngine } from '../support/wasm-test-engine';

/** JavaScript passes any value as options. */
type Options = never;
type Call = (options: Options) => unknown;

const NONSENSE = Object.entries(nonsense());

const images = (): tf.Tensor => tf.ones([1, 1, 4, 4]);
const kernel = (): tf.Tensor => tf.ones([1, 1, 3, 3]);
const rows = (): tf.Tensor => tf.ones([2, 3]);
const labels = (): tf.Tensor => tf.tensor1d([0, 1], 'int32');
const heads = (): [tf.Tensor, tf.Tensor, tf.Tensor] => [
  tf.ones([1, 2, 3, 4]),
  tf.ones([1, 2, 3, 4]),
  tf.ones([1, 2, 3, 4]),
];
const sequence = (): tf.Tensor => tf.ones([3, 1, 4]);
const layer = (): nn.TransformerEncoderLayer => new nn.TransformerEncoderLayer(4, 2, { dimFeedforward: 8 });

/** A call with options of every layer and function that has options, by the name of its export. */
const CASES: Readonly<Record<string, Call>> = {
  attention: (o) => nn.attention(...heads(), o),
  Buffer: (o) => new nn.Buffer(tf.zeros([2]), o),
  Parameter: (o) => new nn.Parameter(tf.zeros([2]), o),
  Embedding: (o) => new nn.Embedding(4, 3, o),
  Linear: (o) => new nn.Linear(3, 4, o),
  LayerNorm: (o) => new nn.LayerNorm(3, o),
  RMSNorm: (o) => new nn.RMSNorm(3, o),
  BatchNorm1d: (o) => new nn.BatchNorm1d(3, o),
  BatchNorm2d: (o) => new nn.BatchNorm2d(3, o),
  SyncBatchNorm: (o) => new nn.SyncBatchNorm(3, o),
  GroupNorm: (o) => new nn.GroupNorm(1, 2, o),
  Conv1d: (o) => new nn.Conv1d(2, 2, 3, o),
  Conv2d: (o) => new nn.Conv2d(2, 2, 3, o),
  ConvTranspose2d: (o) => new nn.ConvTranspose2d(2, 2, 3, o),
  MaxPool1d: (o) => new nn.MaxPool1d(2, o),
  MaxPool2d: (o) => new nn.MaxPool2d(2, o),
  AvgPool1d: (o) => new nn.AvgPool1d(2, o),
  AvgPool2d: (o) => new nn.AvgPool2d(2, o),
  Upsample: (o) => new nn.Upsample(o),
  GELU: (o) => new nn.GELU(o),
  CrossEntropyLoss: (o) => new nn.CrossEntropyLoss(o),
  NLLLoss: (o) => new nn.NLLLoss(o),
  MSELoss: (o) => new nn.MSELoss(o),
  L1Loss: (o) => new nn.L1Loss(o),
  SmoothL1Loss: (o) => new nn.SmoothL1Loss(o),
  HuberLoss: (o) => new nn.HuberLoss(o),
  BCEWithLogitsLoss: (o) => new nn.BCEWithLogitsLoss(o),
  BCELoss: (o) => new nn.BCELoss(o),
  KLDivLoss: (o) => new nn.KLDivLoss(o),
  MultiheadAttention: (o) => new nn.MultiheadAttention(4, 2, o),
  'MultiheadAttention.forward': (o) =>
    new nn.MultiheadAttention(4, 2).forward(sequence(), sequence(), sequence(), o),
  LSTM: (o) => new nn.LSTM(3, 4, o),
  GRU: (o) => new nn.GRU(3, 4, o),
  RNN: (o) => new nn.RNN(3, 4, o),
  TransformerEncoderLayer: (o) => new nn.TransformerEncoderLayer(4, 2, o),
  'TransformerEncoderLayer.forward': (o) => layer().forward(sequence(), o),
  TransformerEncoder: (o) => new nn.TransformerEncoder(layer, 1, o),
  'TransformerEncoder.forward': (o) => new nn.TransformerEncoder(layer, 1).forward(sequence(), o),
  TemperatureGating: (o) => new nn.TemperatureGating(3, 2, o),
  'Module.loadStateDict': (o) => new nn.Linear(1, 1).loadStateDict({}, o),
  applyLoRA: (o) => nn.applyLoRA(new nn.Sequential(new nn.Linear(2, 2)), o),
  gelu: (o) => functional.gelu(rows(), o),
  normalize: (o) => functional.normalize(rows(), o),
  gumbelSoftmax: (o) => functional.gumbelSoftmax(rows(), o),
  cosineSimilarity: (o) => functional.cosineSimilarity(rows(), rows(), o),
  embedding: (o) => functional.embedding(labels(), rows(), o),
  conv1d: (o) => functional.conv1d(tf.ones([1, 1, 4]), tf.ones([1, 1, 3]), null, o),
  conv2d: (o) => functional.conv2d(images(), kernel(), null, o),
  convTranspose2d: (o) => functional.convTranspose2d(images(), kernel(), null, o),
  maxPool2d: (o) => functional.maxPool2d(images(), 2, o),
  avgPool2d: (o) => functional.avgPool2d(images(), 2, o),
  scaledDotProductAttention: (o) => functional.scaledDotProductAttention(...heads(), o),
  mseLoss: (o) => functional.mseLoss(rows(), rows(), o),
  l1Loss: (o) => functional.l1Loss(rows(), rows(), o),
  smoothL1Loss: (o) => functional.smoothL1Loss(rows(), rows(), o),
  huberLoss: (o) => functional.huberLoss(rows(), rows(), o),
  binaryCrossEntropy: (o) => functional.binaryCrossEntropy(rows(), rows(), o),
  binaryCrossEntropyWithLogits: (o) => functional.binaryCrossEntropyWithLogits(rows(), rows(), o),
  klDiv: (o) => functional.klDiv(rows(), rows(), o),
  nllLoss: (o) => functional.nllLoss(rows(), labels(), o),
  crossEntropy: (o) => functional.crossEntropy(rows(), labels(), o),
};

/** Calls whose options are the sizes of a model, which have a test of their own. */
const SIZES = ['gpt', 'moe', 'llama', 'dit', 't5Encoder', 'MixtureOfExperts', 'MoeBlock', 'DitBlock'];

before(() => testEngine());

/** Names of exports of a source file whose constructor or signature has a last parameter of options. */
function withOptions(path: string): string[] {
  const file = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true);
  return file.statements.flatMap((statement) => {
    const isExported =
      ts.canHaveModifiers(statement) &&
      ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
    if (isExported !== true) return [];
    if (ts.isFunctionDeclaration(statement))
      return takesOptions(statement.parameters) ? [statement.name?.text ?? ''] : [];
    if (!ts.isClassDeclaration(statement)) return [];
    return statement.members.flatMap((member) => {
      const name = statement.name?.text ?? '';
      if (ts.isConstructorDeclaration(member)) return takesOptions(member.parameters) ? [name] : [];
      const isForward = ts.isMethodDeclaration(member) && member.name.getText() === 'forward';
      return isForward && takesOptions(member.parameters) ? [`${name}.forward`] : [];
    });
  });
}

function takesOptions(parameters: ts.NodeArray<ts.ParameterDeclaration>): boolean {
  const type = parameters.at(-1)?.type?.getText() ?? '';
  return /Options\b|Window\b|^\{ readonly/.test(type);
}

describe('options of layers and functions', () => {
  it('are all in this test', () => {
    const root = join(repositoryRoot(), 'src');
    const files = [
      ...['nn', 'nn/layers', 'nn/moe', 'nn/models'].flatMap((folder) =>
        readdirSync(join(root, folder))
          .filter((name) => name.endsWith('.ts'))
          .map((name) => join(root, folder, name)),
      ),
      join(root, 'engine', 'backend', 'image-ops.ts'),
    ];
    const names = files.flatMap(withOptions).filter((name) => {
      const [base = ''] = name.split('.');
      return base in nn || base in functional;
    });
    assert.deepEqual(
      names.filter((name) => !(name in CASES) && !SIZES.includes(name)),
      [],
    );
    assert.ok(names.length > 40, `${names.length}`);
  });

  for (const [name, call] of Object.entries(CASES)) {
    it(`of ${name} are refused when they are unknown, or not given by name`, () => {
      const unknown = { code: 'CONFIG', message: /has no argument noSuchOption; |noSuchOption: unknown key/ };
      assert.throws(() => call({ noSuchOption: 1 } as Options), unknown, name);
      for (const given of [null, 2, 'sum', [1], new Map(), new Date(0)])
        assert.throws(() => call(given as Options), { code: 'CONFIG' }, `${name}(${String(given)})`);
    });
  }

  it('with nonsense as values are errors of shardlab, or harmless', () => {
    for (const [name, call] of Object.entries(CASES)) {
      for (const option of optionsOf(call)) {
        for (const [kind, value] of NONSENSE)
          tf.tidy(
            () =>
              void refusesShortly(`${name}({ ${option}: ${kind} })`, () =>
                call({ [option]: value } as Options),
              ),
          );
      }
    }
  });

  it('with torch names, torch values and wrong types say what to write', () => {
    const cases: readonly (readonly [() => unknown, RegExp])[] = [
      [
        () => CASES.LSTM?.({ projSize: 2 } as Options),
        /^ShardlabError.*nn\.LSTM has no argument projSize; choose one of numLayers/,
      ],
      [() => CASES.LSTM?.({ num_layers: 2 } as Options), /nn\.LSTM: num_layers is written numLayers here/],
      [
        () => CASES.Conv2d?.({ paddingMode: 'circular' } as Options),
        /nn\.Conv2d has no argument paddingMode/,
      ],
      [
        () => CASES.crossEntropy?.({ ignore_index: 1 } as Options),
        /ignore_index is written ignoreIndex here/,
      ],
      [
        () => CASES.crossEntropy?.({ reduction: 'avg' } as Options),
        /reduction is "avg", but must be 'none' or 'mean' or 'sum'/,
      ],
      [
        () => CASES.crossEntropy?.({ labelSmoothing: 3 } as Options),
        /labelSmoothing is 3, but must be a number from 0 to 1/,
      ],
      [() => CASES.MSELoss?.({ reduction: 'avg' } as Options), /nn\.MSELoss: reduction is "avg"/],
      [
        () => CASES.Linear?.(false as Options),
        /nn\.Linear takes options by name, not false; the options are bias, init/,
      ],
      [
        () => CASES.Conv2d?.({ stride: 0 } as Options),
        /stride is 0, but must be a whole number of at least 1, or a pair/,
      ],
    ];
    for (const [call, message] of cases) assert.throws(call, message);
  });
});

/** The names of a call's options, which an error lists. */
function optionsOf(call: Call): readonly string[] {
  try {
    call({ zzzzzzzz: 1 } as Options);
  } catch (error) {
    const found = /choose one of ([\w, ]+)/.exec(error instanceof Error ? error.message : '')?.[1];
    if (found !== undefined) return found.split(', ');
  }
  return assert.fail('the call takes any option');
}
