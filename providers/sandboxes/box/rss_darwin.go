package box

const rssUnit = 1 // of getrusage(2)
