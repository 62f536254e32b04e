import { type Language, languages, type Text } from '../../core';

/** The sentences about exercises and guesses, with holes for values. */
const SENTENCES = {
  noExercise: {
    en: "there is no exercise '{0}'; sl.score() lists the exercises of a notebook",
    zh: "没有名为 '{0}' 的练习；sl.score() 列出笔记本的练习",
  },
  checksGuess: {
    en: "this is a guess, not an exercise: sl.guess('{0}', 40) stores a guess, and sl.solution('{0}') gives it up",
    zh: "这是猜测，不是练习：sl.guess('{0}', 40) 记下猜测，sl.solution('{0}') 放弃猜测",
  },
  guessesExercise: {
    en: "'{0}' is an exercise, not a guess: sl.check('{0}', …) checks an answer",
    zh: "'{0}' 是练习，不是猜测：sl.check('{0}', …) 检查答案",
  },
  otherQuantity: {
    en: "nothing was stored: the guess '{0}' is about '{1}', not {2}; write sl.guess('{0}', 40, '{1}')",
    zh: "没有记下：猜测 '{0}' 问的是 '{1}'，不是 {2}；请写 sl.guess('{0}', 40, '{1}')",
  },
  noQuantity: {
    en: "nothing was stored: name the quantity of a figure, as in sl.guess('{0}', 40, 'paramShare'). The notebooks ask for {1}",
    zh: "没有记下：请写出图中的量，例如 sl.guess('{0}', 40, 'paramShare')。笔记本问的量有 {1}",
  },
  unusualQuantity: {
    en: "no guess of the notebooks is about '{0}': if no figure has this quantity, no answer comes. The notebooks ask for {1}",
    zh: "笔记本中没有关于 '{0}' 的猜测：如果没有图画出这个量，就不会有答案。笔记本问的量有 {1}",
  },
  right: { en: 'right. {0}', zh: '正确。{0}' },
  points: { en: 'Points: {0} of 1, after {1}.', zh: '得分 {0}/1，{1}。' },
  oneTry: { en: '1 try', zh: '作答 1 次' },
  tries: { en: '{0} tries', zh: '作答 {0} 次' },
  wrong: { en: '{0} is not right. {1}', zh: '{0} 不对。{1}' },
  hint: { en: 'Hint {0} of {1}: {2}', zh: '提示 {0}/{1}：{2}' },
  offer: {
    en: "sl.solution('{0}') shows the solution; a right answer is then worth half a point.",
    zh: "sl.solution('{0}') 给出解答；此后答对得半分。",
  },
  skipped: {
    en: "no answer yet; the notebook continues without it. Give {0}; sl.hint('{1}') shows a hint.",
    zh: "尚未作答，笔记本照常继续。请给出：{0}；sl.hint('{1}') 显示提示。",
  },
  nothing: {
    en: "no answer yet: the value is undefined. If a function makes it, the function returned nothing: add `return`. Give {0}; sl.hint('{1}') shows a hint.",
    zh: "尚未作答：这个值是 undefined。如果它来自函数，这个函数没有返回值：请加上 `return`。请给出：{0}；sl.hint('{1}') 显示提示。",
  },
  unclear: {
    en: '{0} does not count as a try: give {1}.',
    zh: '{0} 不算一次作答。请给出：{1}。',
  },
  solution: { en: 'Solution: {0}', zh: '解答：{0}' },
  worthNothing: {
    en: 'It was shown before two wrong answers, so a right answer is now worth no point.',
    zh: '在答错两次之前就看了解答，所以现在答对不得分。',
  },
  worthHalf: {
    en: 'A right answer is now worth half a point.',
    zh: '现在答对得半分。',
  },
  unsaved: {
    en: 'Not recorded in a file ({0}): save the notebook, whose output has the answer too.',
    zh: '没有写入文件（{0}）：请保存笔记本，其输出中也有这个答案。',
  },
  askGuess: {
    en: "{0} Write your guess as a number, as in sl.guess('{1}', 40, '{2}'){3}; the figure shows the answer after it.",
    zh: "{0} 用数字写出你的猜测，例如 sl.guess('{1}', 40, '{2}'){3}；之后图会给出答案。",
  },
  inUnit: { en: ' (in {0})', zh: '（单位：{0}）' },
  noGuess: {
    en: "no guess yet: replace NaN by a number.\nThe figure shows the answer after a guess; sl.solution('{0}') shows it without one",
    zh: "还没有猜：把 NaN 换成一个数。\n猜过之后图会给出答案；sl.solution('{0}') 可以不猜就看",
  },
  unclearGuess: {
    en: '{0} is no number; write your guess as a number',
    zh: '{0} 不是数；请用一个数写出你的猜测',
  },
  otherUnit: {
    en: '{0} is not in the unit of this quantity; write your guess as a number{1}',
    zh: '{0} 用的不是这个量的单位；请用一个数写出你的猜测{1}',
  },
  guessed: {
    en: 'your guess: {0}; the next figure of this quantity shows the answer',
    zh: '你的猜测：{0}；下一张画出这个量的图会给出答案',
  },
  solutionOfGuess: {
    en: 'The next figure of this quantity shows the answer; run the cell of the figure again.',
    zh: '下一张画出这个量的图会给出答案；请再次运行画图的单元格。',
  },
} as const satisfies Record<string, Text>;

/** Returns a sentence in a language, with values in its holes. */
export function say(
  name: keyof typeof SENTENCES,
  language: Language,
  ...values: readonly (string | number)[]
): string {
  return languages.inLanguage(SENTENCES[name], language, values);
}

/** Code in a text, between backticks. */
const CODE = /`([^`\n]+)`/g;

/** Returns the HTML of an escaped text: what is between backticks is code. */
export function withCode(escaped: string): string {
  return escaped.replaceAll(CODE, '<code>$1</code>');
}

/** Returns a text for displays without markup: without the backticks around code. */
export function withoutMarks(text: string): string {
  return text.replaceAll(CODE, '$1');
}
