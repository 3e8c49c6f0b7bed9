namespace gpt {}
