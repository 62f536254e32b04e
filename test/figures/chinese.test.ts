import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { Resvg } from '@resvg/resvg-js';
import { firstColumns, textWidth, wrapped } from '../../src/figures/grammar/ink';
import { ownFigure } from '../../src/figures/own-figure';
import { planMemory } from '../../src/figures/plans/plan-memory';
import { plotNumbers } from '../../src/figures/plot-numbers';
import { fontsOf, toPng } from '../../src/figures/static/png';
import { svgText } from '../../src/figures/static/svg';
import { plannedInput } from '../../src/planner/plan-input';
import { textFaults } from './svg-texts';

const SIZE = 20;

const picture = (text: string, weight = 400): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="400" height="40" font-family="Inter">${svgText(8, 28, text, { size: SIZE, weight, fill: '#222222' })}</svg>`;

/** The box of a picture's text, as the renderer draws it. */
const boxOf = (svg: string) => new Resvg(svg, { font: fontsOf(svg) }).getBBox() ?? assert.fail('no text');

test('Chinese characters are drawn as glyphs, not as equal boxes for missing glyphs', () => {
  // Boxes for missing glyphs would make these pictures equal.
  const pictures = ['显存', '分片', '归约', '气泡'].map((text) => toPng(picture(text)).toString('base64'));
  assert.equal(new Set(pictures).size, 4);
  const [one, ten] = ['一', '十'].map((text) => boxOf(picture(text)));
  assert.ok(one !== undefined && ten !== undefined && one.height < ten.height / 3);
});

test('the measured width of a text with Chinese characters is its width in the picture', () => {
  for (const [text, weight] of [
    ['国张量并行，流水线并行国', 400],
    ['国张量并行，流水线并行国', 600],
    ['国显存（GB），峰值国', 400],
    ['国FULL_SHARD 的损失国', 400],
  ] as const) {
    const { width } = boxOf(picture(text, weight));
    const measured = textWidth(text, SIZE, weight === 600 ? 'bold' : 'regular');
    // The box leaves out the margins of the first and last characters.
    assert.ok(Math.abs(width - measured) < 0.3 * SIZE, `${text} ${weight}: ${width}, measured ${measured}`);
  }
});

test('the font of Chinese is read only for pictures with Chinese, and system fonts only for rare characters', () => {
  const read = (text: string) => {
    const { fontFiles, loadSystemFonts } = fontsOf(picture(text));
    return [fontFiles.some((file) => file.endsWith('noto-sans-sc.otf')), loadSystemFonts];
  };
  assert.deepEqual(['loss 2³⁰ − Żółć', '损失，5', '鬱', 'メモリ', 'Tổn thất', 'الخسارة'].map(read), [
    [false, false],
    [true, false],
    [true, true],
    [true, true],
    [false, true],
    [false, true],
  ]);
  const font = fontsOf(picture('损失')).fontFiles.at(-1) ?? '';
  assert.ok(existsSync(font) && statSync(font).size < 1e6);
});

test('figures with Chinese titles and names have no overlapping texts', () => {
  const model = {
    name: '千问微调模型',
    kind: 'llama',
    layers: 2,
    dim: 64,
    heads: 4,
    vocab: 256,
    seq: 32,
  } as const;
  const figures = [
    plotNumbers(
      { 不分片: 18.1, '完全分片（FULL_SHARD）': 10.6, 只切分梯度和优化器状态的一次训练: 12 },
      { yTitle: '显存' },
    ),
    plotNumbers({ 训练损失: [5, 4, 3], 验证损失: [5.5, 4.5, 4] }, { title: '损失下降', xTitle: '步数' }),
    ownFigure({
      title: '分片之后，每个 rank 的峰值从 18.1 MB 降到 10.6 MB',
      subtitle: '四个 rank，同一个批次',
      data: [{ type: 'bar', marker: { color: '#2362AC' }, x: [0, 1], y: [18.1, 10.6] }],
      layout: { xaxis: { tickvals: [0, 1], ticktext: ['数据并行', '完全分片'] } },
    }),
    planMemory(plannedInput({ model, gpus: 8, hardware: 'A100-80G' })),
  ];
  for (const figure of figures) assert.deepEqual(textFaults(figure.toSvg()), [], figure.title);
});

test('a computed title with long Chinese names is cut where it leaves the picture', () => {
  const name = '一个名字很长很长的训练运行'.repeat(3);
  const { title } = plotNumbers({ [name]: 2, [`${name}二`]: 1 });
  assert.ok(textWidth(title, 15, 'bold') < 800, title);
  assert.equal(firstColumns('ab国c', 4), 'ab国');
  assert.equal(firstColumns('ab国c', 3), 'ab');
});

test('a line of Chinese breaks between characters, and no line begins with punctuation', () => {
  const lines = wrapped('把优化器状态，放到主机内存。', 10, 62);
  assert.deepEqual(lines, ['把优化器状', '态，放到主机', '内存。']);
});
