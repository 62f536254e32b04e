export { inChinese } from './in-chinese';
export { inLanguage, type Language, notebookLanguage, showsChinese, type Text } from './language';
