"""Gemini's generateContent, at the Gemini API and at Vertex AI."""
